"""The paper's tables as code, a module for each suite."""
