"""Episodes and predictions as MP4 files that browsers play."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from re3_jax.runs import installing
from re3_jax.runs.errors import UsageError
from re3_jax.training.whole_file import replacing

EVALUATION, PREDICTIONS = "eval.mp4", "predictions.mp4"
"""Names of the videos in a run folder."""

FRAMES_PER_SECOND = 30
SMALLEST_SIDE = 320
"""Side to which small frames are enlarged, in pixels; each pixel becomes a square."""

STRIP_FRAMES, STRIP_SIDE = 10, 96
"""Frames of a strip, and the side to which small ones are enlarged."""


def encoder() -> str:
    """The path of ffmpeg.

    Raises:
      UsageError: it is not installed.
    """
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        raise UsageError(
            f"a video needs an encoder: {installing.remedy(extras='video')}, or do without it "
            "(a run: --no-video)"
        ) from None


def check_name(path: Path) -> None:
    """Refuses a name that is no video's, because a file there would be replaced."""
    if path.suffix != ".mp4":
        raise UsageError(f"{path} is no video: end its name in .mp4")


def write(path: Path, frames: Sequence[UInt8[np.ndarray, "height width 3"]]) -> None:
    """Writes frames of one size as H.264; replaces `path` only once the video is whole.

    Frames with fewer than `SMALLEST_SIDE` pixels on a side are enlarged by a whole number. An
    odd height or width loses its last row or column, because H.264 halves the colours.

    Raises:
      UsageError: there are no frames, the encoder is missing or fails, or `path` cannot be
        written.
    """
    if not frames:
        raise UsageError(f"{path} would have no frames: record an episode first")
    program = encoder()
    height, width = frames[0].shape[:2]
    factor = -(-SMALLEST_SIDE // min(height, width))
    enlarge = f"scale={factor}*iw:{factor}*ih:flags=neighbor,crop=iw-mod(iw\\,2):ih-mod(ih\\,2)"
    command = [program, "-y", "-v", "error"]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
    command += ["-r", str(FRAMES_PER_SECOND), "-i", "-", "-vf", enlarge, "-c:v", "libx264"]
    command += ["-pix_fmt", "yuv420p", "-f", "mp4"]
    pixels = np.stack(frames).tobytes()
    try:
        with replacing(path) as part:
            # Checked before ffmpeg starts, which would only report a broken pipe.
            part.touch()
            # A colon in a relative path would be a protocol's, a dash at its start an option's.
            command.append(str(part.absolute()))
            subprocess.run(command, input=pixels, capture_output=True, check=True)
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None)
        if said is None:
            said = str(error).encode()
        reason = said.decode(errors="replace").strip().splitlines()[-1:] or ["ffmpeg failed"]
        raise UsageError(
            f"{path} cannot be written ({reason[0]}): make room, or do without it"
        ) from None


def write_strip(
    path: Path, frames: Sequence[UInt8[np.ndarray, "height width 3"]], every: int
) -> None:
    """Writes a picture of `STRIP_FRAMES` frames side by side, `every` frames apart from the first.

    Fewer where the episode ends before; small frames are enlarged, each pixel to a square.

    Raises:
      UsageError: there are no frames, or `path` cannot be written.
    """
    if not frames:
        raise UsageError(f"{path} would have no frames: record an episode first")
    # Matplotlib takes a second to import, which no run needs.
    from matplotlib import image

    factor = -(-STRIP_SIDE // min(frames[0].shape[:2]))
    shown = np.concatenate([*frames[: STRIP_FRAMES * every : every]], axis=1)
    try:
        image.imsave(path, shown.repeat(factor, axis=0).repeat(factor, axis=1))
    # Pillow knows the format by the extension, or raises a KeyError.
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"{path} cannot be written ({error}): name a file such as strip.png"
        ) from None
