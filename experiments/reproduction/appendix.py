"""Appendix A: tasks, implementations, and the two tables of DeepMind Control; Algorithm 2."""

from collections.abc import Sequence

from experiments.reproduction import costs, rules
from experiments.reproduction.entry import (
    Entry,
    Finding,
    Verdict,
    never,
    not_run,
    tested,
    too_long,
)
from experiments.reproduction.results import Interval, Results, Row, interval
from re3_jax.plural import number_of

MINIBATCHES = "results/minibatches/table.csv"
BATCH = {"sequences": "50", "length": "50"}
SMALL_K, K = "4", "53"
"""Ranks that count the frame itself, as in the authors' code."""
OF_FRAME = "share_of_variance"


def _of_ranks(results: Results) -> tuple[list[Row], list[Row]]:
    """The rows of the paper's batch with `SMALL_K` and with `K`."""
    rows = [row for row in results.table(MINIBATCHES) if BATCH.items() <= row.items()]
    few, many = ([row for row in rows if row["k"] == k] for k in (SMALL_K, K))
    return few, many


def _own_segment(results: Results) -> Finding:
    few, many = _of_ranks(results)
    if not many:
        return not_run("no committed result of batches")
    column, both = "share_of_own_sequence", zip(few, many, strict=True)
    pairs = [(interval(one, column), interval(other, column)) for one, other in both]
    judged = rules.apart(pairs, _seeds(many), Verdict.SMALLER)
    words = "; ".join(
        f"{row['task']} {other} against {one}"
        for row, (one, other) in zip(many, pairs, strict=True)
    )
    return _found(
        f"share of a frame's own segment, k = {K} against {SMALL_K}: {words}", many, judged
    )


def _stable(results: Results) -> Finding:
    _, many = _of_ranks(results)
    if not many:
        return not_run("no committed result of batches")
    deviations = [interval(row, "deviation_of_mean") for row in many]
    most = Interval(*[rules.STABLE] * 3)
    judged = rules.apart([(most, one) for one in deviations], _seeds(many), Verdict.SMALLER)
    words = "; ".join(
        f"{row['task']} {deviation}, and of the variance of a frame's distance "
        f"{interval(row, OF_FRAME)} is its own"
        for row, deviation in zip(many, deviations, strict=True)
    )
    return _found(f"deviation of the mean distance between batches: {words}", many, judged)


def _found(words: str, rows: Sequence[Row], judged: rules.Judged) -> Finding:
    verdict, reason = judged
    ran = (
        f"batches of 50 segments of 50 frames, from {int(rows[0]['stored']):,} of random actions, "
        f"{number_of(_seeds(rows), 'seed')}"
    )
    return Finding(verdict, words, ran, reason)


def _seeds(rows: Sequence[Row]) -> int:
    return min(int(row["seeds"]) for row in rows)


CONTROL = (
    Entry(
        "Appendix A.1",
        "Tasks of DeepMind Control; Walker and Cheetah Run Sparse keep rewards above 0.25.",
        "",
        tested(
            "rewards equal dm_control's, cut at each control step",
            "tests/parity/test_dmc.py::test_rewards_are_dm_controls_summed_over_the_repeat",
            "tests/parity/test_dmc.py::test_sparse_rewards_are_cut_per_control_step",
        ),
    ),
    Entry(
        "Appendix A.2",
        "RAD with random crops, DrQ with random shifts, as their authors released them.",
        "",
        tested(
            "networks, losses, gradients and whole updates equal PyTorch's",
            "tests/parity/test_sac.py::test_networks_equal_pytorch",
            "tests/parity/test_sac.py::test_updates_equal_pytorch",
        ),
    ),
    Entry(
        "Appendix A.2",
        "The distance, divided by a running standard deviation, is the reward.",
        "",
        tested(
            "equal to NumPy's; `released` has the released code's recursion, which is another",
            "tests/property/test_running_stats.py::test_any_split_equals_numpy_on_the_whole",
            "tests/unit/test_running_stats.py::test_released_equals_the_authors_recursion",
        ),
    ),
    Entry(
        "Appendix A.2",
        "beta_0 of 0.05 or 0.25 and rho of 0.00001 or 0.000025 were searched.",
        'make run ENV=hopper_hop PRESET=paper ARGS="--re3.beta 0.25"',
        too_long(costs.rad),
    ),
    Entry(
        "Appendix A.2",
        "Encoder: four 3x3 convolutions of 32 filters, a linear layer of 50, LayerNorm, tanh.",
        "",
        tested(
            "equal to PyTorch's",
            "tests/parity/test_pixel_encoder.py::test_the_centre_crop_of_the_whole_stack_is_encoded",
            "tests/parity/test_pixel_encoder.py::test_the_newest_whole_frame_is_encoded",
        ),
    ),
    Entry(
        "Appendix A.2",
        "Pre-training on the reward of Equation 3; fine-tuning takes over parameters and the "
        "running standard deviation.",
        "",
        tested(
            "exactly what is listed is taken over, and the task's reward teaches nothing before",
            "tests/unit/test_transfer.py::test_inherit_takes_all_that_is_listed_and_nothing_else",
            "tests/unit/test_transfer.py::test_running_statistics_go_with_what_they_are_of",
            "tests/unit/test_reward_free.py::test_the_task_reward_is_recorded_and_teaches_nothing",
            "tests/unit/test_reward_free.py::test_a_bare_bonus_is_equation_3_at_every_step",
        ),
    ),
    Entry(
        "Appendix A.2",
        "Encoders learned by contrastive learning and by inverse dynamics, apart from the agent's.",
        "",
        tested(
            "updates equal PyTorch's",
            "tests/parity/test_contrastive.py::test_updates_equal_pytorch",
            "tests/parity/test_inverse_dynamics.py::test_updates_equal_pytorch",
        ),
    ),
    Entry(
        "Appendix A.2",
        "Pre-trained encoders: torchvision's ResNet-50 and ATC.",
        "",
        tested(
            "features equal PyTorch's for the same weights",
            "tests/parity/test_pretrained.py::test_imagenet_features_equal_pytorch",
            "tests/parity/test_pretrained.py::test_atc_equals_pytorch",
            target="test-all",
        ),
    ),
    Entry(
        "Appendix A.2",
        "RND and ICM: networks, losses, the weights 0.2 and 0.8.",
        "",
        tested(
            "rewards, gradients and updates equal PyTorch's",
            "tests/parity/test_rnd.py::test_rewards_gradient_and_updates_equal_pytorch",
            "tests/parity/test_icm.py::test_rewards_gradient_and_updates_equal_pytorch",
        ),
    ),
    Entry(
        "Table 1",
        "Hyperparameters of RAD + RE3, RND and ICM.",
        "",
        tested(
            "`PRESET=paper` has every number",
            "tests/cli/test_dmc_presets.py::test_table",
            "tests/cli/test_bonus_presets.py::test_dmc",
            "tests/cli/test_bonus_presets.py::test_initial_temperature",
        ),
    ),
    Entry(
        "Appendix A.3",
        "Dreamer + RE3: the agent, its encoder, and neighbours within a minibatch.",
        "",
        tested(
            "losses, gradients and rewards equal PyTorch's",
            "tests/parity/test_dreamer.py::test_two_updates",
            "tests/parity/test_dreamer_re3.py::test_rewards_of_sequences",
        ),
    ),
    Entry(
        "Appendix A.3",
        "With k = 50 the neighbours in Dreamer's batch are not only of a frame's own segment.",
        "make figure FIG=minibatches",
        _own_segment,
    ),
    Entry(
        "Appendix A.3",
        "The batch of Dreamer is large enough for a stable estimate.",
        "make figure FIG=minibatches",
        _stable,
    ),
    Entry(
        "Table 2",
        "Hyperparameters of Dreamer + RE3.",
        "",
        tested(
            "`PRESET=paper` has every number", "tests/cli/test_dreamer.py::test_the_papers_table"
        ),
    ),
    Entry(
        "Table 2, footnote",
        "Precision of 32 bits is needed against NaN in the running standard deviation.",
        "",
        never("the statistics are float32 here, whatever `--dreamer.precision` says"),
    ),
)

ON_POLICY = (
    Entry(
        "Algorithm 2",
        "RE3 with an on-policy agent.",
        "",
        tested(
            "whole updates equal PyTorch's, each with the bonus of its own rollout",
            "tests/parity/test_a2c.py::test_two_updates_equal_pytorch",
            "tests/unit/test_on_policy.py::test_the_agent_gets_the_bonus_of_its_own_rollout",
        ),
    ),
)
