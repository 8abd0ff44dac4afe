"""`python -m experiments.compile`, which is `python -m re3_jax.commands.compile`."""

import sys

from re3_jax.commands.compile import main

if __name__ == "__main__":
    sys.exit(main())
