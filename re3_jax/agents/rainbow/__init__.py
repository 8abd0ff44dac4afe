"""Rainbow (Hessel et al., 2018)."""
