"""The paper's tables as code, one module per suite."""
