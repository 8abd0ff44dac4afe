"""`python -m experiments.report`, which is `python -m re3_jax.commands.report`."""

import sys

from re3_jax.commands.report import main

if __name__ == "__main__":
    sys.exit(main())
