"""Dreamer with and without RE3, and with two options, on a pixel task that takes minutes.

make figure FIG=dreamer [ARGS="--jobs 2"]
python -m experiments.figures.dreamer [--seeds N] [--steps N]
"""

from functools import partial

from experiments.figures import rows
from experiments.figures.rows import Panels, Row
from experiments.figures.runs import Run

bar = partial(Run, "pixels:bar", preset="recommended", agent="dreamer", seeds=5, steps=2_400)
whole_ring = bar("re3", changes={"dreamer.neighbours": "ring"})
narrow = bar("re3", changes={"dreamer.precision": "bfloat16"})

PANELS: Panels = {
    "bar": (
        "A bar in pixels",
        [
            Row("Dreamer", "bar-none", bar("none")),
            Row("Dreamer + RE3", "bar-re3", bar("re3")),
            Row("Dreamer + RE3, whole ring", "bar-re3-ring", whole_ring),
            Row("Dreamer + RE3, bfloat16", "bar-re3-bfloat16", narrow),
        ],
    )
}

main = rows.figure("dreamer", PANELS, ("image_loss", "reward_loss", "kl"))

if __name__ == "__main__":
    raise SystemExit(main())
