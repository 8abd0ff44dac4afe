"""`python -m experiments.train`, which is `python -m re3_jax.commands.train`."""

import sys

from re3_jax.commands.train import main

if __name__ == "__main__":
    sys.exit(main())
