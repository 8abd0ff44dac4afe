"""Rainbow with and without RE3 on MinAtar.

make figure FIG=rainbow [ARGS="--jobs 2"]
python -m experiments.figures.rainbow [--tasks breakout] [--seeds N] [--steps N]
"""

import sys
from functools import partial

from experiments.figures import with_re3
from experiments.figures.with_re3 import Panel

PANELS = {
    "breakout": Panel("gymnax:Breakout-MinAtar", "Breakout (MinAtar)", 5, 400_000),
}

main = partial(with_re3.main, "rainbow", "Rainbow", PANELS)

if __name__ == "__main__":
    sys.exit(main())
