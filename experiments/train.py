"""`python -m experiments.train`, which is `python -m re3_jax.commands.train`."""

import sys

from re3_jax.commands.train import main, silence_late_reports

if __name__ == "__main__":
    sys.unraisablehook = silence_late_reports
    sys.exit(main())
