"""The 57 Atari games by name, and the scores that normalise results.

Scores of a random and of a human player are those of Wang et al. (2016, "Dueling Network
Architectures", 30 no-op starts), as google-deepmind/dqn_zoo lists them in `atari_data.py`. The
human scores of Mnih et al. (2015), which the paper cites, are lower: by half or more for Beam Rider
and Seaquest.
"""

from typing import NamedTuple

from re3_jax.envs.names import unknown_name


class Scores(NamedTuple):
    """Mean score of an episode."""

    random: float
    human: float


GAMES: dict[str, Scores] = {
    "alien": Scores(227.8, 7127.7),
    "amidar": Scores(5.8, 1719.5),
    "assault": Scores(222.4, 742.0),
    "asterix": Scores(210.0, 8503.3),
    "asteroids": Scores(719.1, 47388.7),
    "atlantis": Scores(12850.0, 29028.1),
    "bank_heist": Scores(14.2, 753.1),
    "battle_zone": Scores(2360.0, 37187.5),
    "beam_rider": Scores(363.9, 16926.5),
    "berzerk": Scores(123.7, 2630.4),
    "bowling": Scores(23.1, 160.7),
    "boxing": Scores(0.1, 12.1),
    "breakout": Scores(1.7, 30.5),
    "centipede": Scores(2090.9, 12017.0),
    "chopper_command": Scores(811.0, 7387.8),
    "crazy_climber": Scores(10780.5, 35829.4),
    "defender": Scores(2874.5, 18688.9),
    "demon_attack": Scores(152.1, 1971.0),
    "double_dunk": Scores(-18.6, -16.4),
    "enduro": Scores(0.0, 860.5),
    "fishing_derby": Scores(-91.7, -38.7),
    "freeway": Scores(0.0, 29.6),
    "frostbite": Scores(65.2, 4334.7),
    "gopher": Scores(257.6, 2412.5),
    "gravitar": Scores(173.0, 3351.4),
    "hero": Scores(1027.0, 30826.4),
    "ice_hockey": Scores(-11.2, 0.9),
    "jamesbond": Scores(29.0, 302.8),
    "kangaroo": Scores(52.0, 3035.0),
    "krull": Scores(1598.0, 2665.5),
    "kung_fu_master": Scores(258.5, 22736.3),
    "montezuma_revenge": Scores(0.0, 4753.3),
    "ms_pacman": Scores(307.3, 6951.6),
    "name_this_game": Scores(2292.3, 8049.0),
    "phoenix": Scores(761.4, 7242.6),
    "pitfall": Scores(-229.4, 6463.7),
    "pong": Scores(-20.7, 14.6),
    "private_eye": Scores(24.9, 69571.3),
    "qbert": Scores(163.9, 13455.0),
    "riverraid": Scores(1338.5, 17118.0),
    "road_runner": Scores(11.5, 7845.0),
    "robotank": Scores(2.2, 11.9),
    "seaquest": Scores(68.4, 42054.7),
    "skiing": Scores(-17098.1, -4336.9),
    "solaris": Scores(1236.3, 12326.7),
    "space_invaders": Scores(148.0, 1668.7),
    "star_gunner": Scores(664.0, 10250.0),
    "surround": Scores(-10.0, 6.5),
    "tennis": Scores(-23.8, -8.3),
    "time_pilot": Scores(3568.0, 5229.2),
    "tutankham": Scores(11.4, 167.6),
    "up_n_down": Scores(533.4, 11693.2),
    "venture": Scores(0.0, 1187.5),
    "video_pinball": Scores(16256.9, 17667.9),
    "wizard_of_wor": Scores(563.5, 4756.5),
    "yars_revenge": Scores(3092.9, 54576.9),
    "zaxxon": Scores(32.5, 9173.3),
}


PAPER_GAMES = ("asterix", "beam_rider", "montezuma_revenge", "seaquest")
"""The four of the paper's six games that its text names; the others are only in a picture."""


def find(game: str) -> str:
    """The name of a game in `GAMES`; "MontezumaRevenge" is found as montezuma_revenge, too.

    Raises:
      ValueError: if there is no such game; the message offers the nearest names.
    """
    plain = _letters(game)
    for name in GAMES:
        if _letters(name) == plain:
            return name
    raise unknown_name("Atari game", game, GAMES)


def pool_name(game: str) -> str:
    """The game's name in envpool, e.g. `MontezumaRevenge-v5`."""
    return "".join(word.capitalize() for word in game.split("_")) + "-v5"


def human_normalised(game: str, score: float) -> float:
    """(score - random) / (human - random): 0 for a random player, 1 for a human."""
    scores = GAMES[game]
    return (score - scores.random) / (scores.human - scores.random)


def _letters(game: str) -> str:
    return game.replace("_", "").lower()
