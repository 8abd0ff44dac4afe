"""`python -m experiments.evaluate`, which is `python -m re3_jax.commands.evaluate`."""

import sys

from re3_jax.commands.evaluate import main

if __name__ == "__main__":
    sys.exit(main())
