"""`python -m experiments.look`, which is `python -m re3_jax.commands.look`."""

import sys

from re3_jax.commands.look import main

if __name__ == "__main__":
    sys.exit(main())
