"""Observations that are stacks of the newest frames: what acts and what replays put them together.

Frames are concatenated along their last axis, the newest last. Before an episode's first frame
stands that frame again (RAD, DrQ) or zeros (Kaixhin/Rainbow).
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Shaped

Padding = Literal["repeat", "zeros"]


class FrameStack(NamedTuple):
    """A stack of `size` frames; a size of 1 leaves observations as they are.

    Attributes:
      size: frames in one observation.
      padding: what stands before an episode's first frame: that frame, or zeros.
    """

    size: int
    padding: Padding = "repeat"

    def first(self, frame: Shaped[Array, " lane *frame"]) -> Shaped[Array, " lane *stack"]:
        """The observation at the beginning of an episode."""
        before = frame if self.padding == "repeat" else jnp.zeros_like(frame)
        return jnp.concatenate([*[before] * (self.size - 1), frame], axis=-1)

    def push(
        self, stack: Shaped[Array, " lane *stack"], frame: Shaped[Array, " lane *frame"]
    ) -> Shaped[Array, " lane *stack"]:
        """The observation one frame later in the same episode."""
        return jnp.concatenate([stack[..., frame.shape[-1] :], frame], axis=-1)

    def following(
        self,
        stack: Shaped[Array, " lane *stack"],
        frame: Shaped[Array, " lane *frame"],
        begins: Bool[Array, " lane"],
    ) -> Shaped[Array, " lane *stack"]:
        """`first(frame)` where an episode begins with the frame, `push(stack, frame)` elsewhere."""
        if self.size == 1:
            return frame
        begins = begins.reshape(-1, *[1] * (frame.ndim - 1))
        return jnp.where(begins, self.first(frame), self.push(stack, frame))

    def gather(
        self,
        frame_at: Callable[[Int[Array, " batch"]], Shaped[Array, " batch *frame"]],
        age: Int[Array, " batch"],
        extra: int = 0,
    ) -> Shaped[Array, " batch *stack"]:
        """Stacks of stored frames.

        Args:
          frame_at: frames back from the newest -> those frames, from the ring.
          age: frames that the episode has before the newest.
          extra: older frames beside those of the stack, with which two stacks in a row share all
            frames but one each.
        """
        columns = []
        # Frame by frame: half the memory and time of one gather that is transposed afterwards.
        for back in range(self.size + extra - 1, -1, -1):
            if self.padding == "repeat":
                columns.append(frame_at(jnp.minimum(back, age)))
                continue
            frame = frame_at(jnp.full_like(age, back))
            inside = (back <= age).reshape(-1, *[1] * (frame.ndim - 1))
            columns.append(jnp.where(inside, frame, jnp.zeros((), frame.dtype)))
        return jnp.concatenate(columns, axis=-1)
