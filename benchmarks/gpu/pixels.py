"""`python -m benchmarks.gpu.pixels --env TASK --seeds N ...`: the parts of an agent step, as JSON.

Takes the options of `re3_jax.commands.profile` and measures as it does.
"""

import contextlib
import json
import sys
import tempfile
from pathlib import Path

from re3_jax.commands import profile
from re3_jax.runs import build, machine
from re3_jax.runs.options import parse


def main(words: list[str]) -> None:
    """Prints the JSON."""
    config = parse(words)
    machine.use_cpu_devices(build.cpu_devices(config))
    machine.keep_compiled_programs()
    config, spec = build.prepared(config)
    # Renderers talk.
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        found = profile.profile_host(config, spec, Path(folder))
    report = {
        "seeds": config.seeds,
        "ms": round(found.milliseconds, 3),
        "ms_of_parts": {name: round(ms, 3) for name, ms in found.parts.items()},
        "env_frames_per_second": round(1e3 * found.env_frames / found.milliseconds),
        "peak_device_bytes": machine.peak_device_bytes(),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1:])
