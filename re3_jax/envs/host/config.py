"""Options for stepping and drawing host tasks."""

from dataclasses import dataclass
from typing import Literal

from re3_jax import checks

SparseThreshold = Literal["exclusive", "inclusive"]
Engine = Literal["dm_control", "envpool"]
RendererName = Literal["auto", "gl", "gl_small_shadows", "gl_cheap", "warp"]


@dataclass(frozen=True)
class DMCConfig:
    """DeepMind Control from pixels.

    Attributes:
      image_size: height and width of a frame in pixels.
      action_repeat: control steps per agent step; their rewards are summed.
      frame_stack: number of newest frames that an agent sees at once.
      sparse_threshold: whether the sparse tasks keep a reward of exactly 0.25 (`inclusive`,
        the released code) or not (`exclusive`, the paper).
      engine: what simulates and draws: `dm_control` in separate worker processes, or `envpool`,
        which has an older MuJoCo.
      renderer: `gl` draws as dm_control does; `gl_small_shadows` with a shadow map of 512
        texels; `gl_cheap` also without multisampling; `warp` casts rays on the CPU or GPU and
        needs no GL; `auto` is `gl` where a driver works, else `warp`.
      step_timeout_seconds: a worker that takes longer for one step is replaced.
      workers: processes that share the lanes; with None one per lane, up to the usable cores.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    image_size: int = 100
    action_repeat: int = 2
    frame_stack: int = 3
    sparse_threshold: SparseThreshold = "inclusive"
    engine: Engine = "dm_control"
    renderer: RendererName = "auto"
    step_timeout_seconds: float = 60.0
    workers: int | None = None

    def __post_init__(self) -> None:
        """Validates the fields."""
        checks.at_least(self, 1, "image_size", "action_repeat", "frame_stack")
        if self.action_repeat > 1000:
            raise ValueError(
                "action_repeat must be at most 1000, the control steps of an episode, but it is "
                f"{self.action_repeat}"
            )
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers must be at least 1 or None, but it is {self.workers}")
        checks.positive(self, "step_timeout_seconds")
        checks.one_of(self, sparse_threshold=SparseThreshold, engine=Engine, renderer=RendererName)
        if self.engine == "envpool" and self.renderer == "warp":
            raise ValueError(
                "renderer must be a GL one with engine envpool, which draws by itself, but it is "
                "'warp'"
            )


@dataclass(frozen=True)
class AtariConfig:
    """Options for stepping a game; the defaults are those of Kaixhin/Rainbow.

    Attributes:
      frame_stack: number of newest frames that an agent sees at once.
      sticky_actions: probability with which a frame repeats the action of the frame before.
      max_no_ops: an episode begins with 1 to this many frames without action.
      life_ends: whether the loss of a life ends the task for the learner; returns still count
        whole games.
      max_agent_steps: agent steps after which a game is cut off; the default is half an hour of
        play, 108,000 frames.
      workers: threads; with None one per lane, up to the usable cores.

    Raises:
      ValueError: if a value is out of range; the message names it and the allowed values.
    """

    frame_stack: int = 4
    sticky_actions: float = 0.0
    max_no_ops: int = 30
    life_ends: bool = True
    max_agent_steps: int = 27_000
    workers: int | None = None

    def __post_init__(self) -> None:
        """Validates the fields."""
        checks.switches(self)
        # envpool ends the process if max_no_ops is 0.
        checks.at_least(self, 1, "frame_stack", "max_no_ops", "max_agent_steps")
        checks.share(self, "sticky_actions")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers must be at least 1 or None, but it is {self.workers}")
