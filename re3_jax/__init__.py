"""State-entropy exploration with random encoders (RE3; Seo et al., ICML 2021) in JAX."""
