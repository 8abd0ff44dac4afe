"""`python -m experiments.compare`, which is `python -m re3_jax.commands.compare`."""

import sys

from re3_jax.commands.compare import main

if __name__ == "__main__":
    sys.exit(main())
