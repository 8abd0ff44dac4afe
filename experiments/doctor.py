"""`python -m experiments.doctor`, which is `python -m re3_jax.commands.doctor`."""

import sys

from re3_jax.commands.doctor import main

if __name__ == "__main__":
    sys.exit(main())
