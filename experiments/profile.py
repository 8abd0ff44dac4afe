"""`python -m experiments.profile`, which is `python -m re3_jax.commands.profile`."""

import sys

from re3_jax.commands.profile import main

if __name__ == "__main__":
    sys.exit(main())
