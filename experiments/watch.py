"""`python -m experiments.watch`, which is `python -m re3_jax.commands.watch`."""

import sys

from re3_jax.commands.watch import main

if __name__ == "__main__":
    sys.exit(main())
