"""Atari games in envpool's threads (io)."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Int, UInt8

from re3_jax.envs.base import Discrete, EnvSpec, LaneStep
from re3_jax.envs.host import atari_games, envpool
from re3_jax.envs.host.config import AtariConfig

FRAME_SKIP = 4
SIZE = 84


def spec(game: str, config: AtariConfig) -> EnvSpec:
    """Specification of a game: 84x84 grey frames and the minimal set of actions.

    Raises:
      ValueError: if there is no such game, or something imported envpool before.
      ImportError: if envpool is not installed.
    """
    game = atari_games.find(game)
    pool = envpool.load().make_spec(atari_games.pool_name(game))
    return EnvSpec(
        task=f"atari:{game}",
        observation_shape=(SIZE, SIZE, config.frame_stack),
        observation_dtype=np.dtype(np.uint8),
        action_space=Discrete(int(pool.action_space.n)),
        max_agent_steps=config.max_agent_steps,
        action_repeat=FRAME_SKIP,
        colours=1,
        frame_stack=config.frame_stack,
    )


class AtariLanes(envpool.PoolLanes):
    """Lanes of one game in an envpool, as a `HostEnv`.

    envpool resets an ended lane in the next step and drops the action of that step. This class
    resets an ended lane at once, by itself, so that every action is played. It reads lost lives
    from the game's own count, because envpool's one-life episodes would drop an action per life.
    The last life is lost with the game, as in Kaixhin's Rainbow.

    Attributes:
      spec: the game's specification.
    """

    def __init__(
        self,
        game: str,
        config: AtariConfig,
        num_lanes: int,
        report: Callable[[str], None] = print,
    ) -> None:
        """Starts nothing; `reset` starts the pool.

        Args:
          game: name of the game.
          config: how to step it.
          num_lanes: episodes side by side.
          report: never called, because there is no worker to lose.

        Raises:
          ImportError: if envpool is not installed.
          ValueError: if there is no such game, or something imported envpool before.
        """
        del report
        super().__init__(num_lanes, "")
        self.spec = spec(game, config)
        self._config, self._name = config, atari_games.pool_name(atari_games.find(game))
        self._lives = np.zeros(num_lanes, int)

    def _reset(self, seeds: list[int]) -> np.ndarray:
        self._pool = None
        self._pool = envpool.load().make_gymnasium(
            self._name,
            num_envs=self.num_lanes,
            num_threads=self._config.workers or 0,
            seed=seeds,
            stack_num=1,
            frame_skip=FRAME_SKIP,
            img_height=SIZE,
            img_width=SIZE,
            # Kaixhin's resizing, and no automatic press of FIRE.
            use_inter_area_resize=False,
            use_fire_reset=False,
            noop_max=self._config.max_no_ops,
            repeat_action_probability=self._config.sticky_actions,
            max_episode_steps=self._config.max_agent_steps,
            reward_clip=False,
            episodic_life=False,
        )
        return self._begin(np.arange(self.num_lanes, dtype=np.int32))

    def _begin(self, lanes: Int[np.ndarray, " some"]) -> UInt8[np.ndarray, "some 84 84 1"]:
        observation, info = self._pool.reset(lanes)
        order = np.argsort(info["env_id"])
        self._lives[np.sort(lanes)] = info["lives"][order]
        return _frames(observation[order])

    def send(self, action: Int[np.ndarray, " lane"]) -> None:
        """Starts one step with `action`, whole numbers [lane] or [lane, 1]."""
        self._start(np.asarray(action, np.int32).reshape(self.num_lanes))

    def _advance(self, action: Int[np.ndarray, " lane"]) -> LaneStep:
        lanes = np.arange(self.num_lanes, dtype=np.int32)
        observation, reward, terminated, truncated, info = self._pool.step(action, lanes)
        order = np.argsort(info["env_id"])
        frame = final_frame = _frames(observation[order])
        terminated, truncated = np.array(terminated[order]), np.array(truncated[order])
        truncated &= ~terminated
        lives = info["lives"][order]
        # Q*bert may count no lives for some frames before it ends: one loss, not two.
        life_lost = (lives < self._lives) & (lives > 0) & self._config.life_ends
        self._lives[:] = lives
        ended = np.flatnonzero(terminated | truncated).astype(np.int32)
        if len(ended):
            frame = final_frame.copy()
            frame[ended] = self._begin(ended)
        return LaneStep(
            frame,
            np.array(reward[order], np.float32),
            terminated,
            truncated,
            final_frame,
            life_lost | terminated,
        )


def _frames(observation: UInt8[np.ndarray, "some 1 84 84"]) -> UInt8[np.ndarray, "some 84 84 1"]:
    """Frames with channels last, copied because envpool reuses its buffers."""
    return np.moveaxis(observation, 1, -1).copy()
