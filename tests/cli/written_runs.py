"""Run folders written by hand."""

import json

from re3_jax.runs import run_folder
from re3_jax.runs.run_folder import CONFIG


def write_run(folder, bonus="re3", finals=(0.5, 0.7), frames=(0, 100, 400), first=1, **options):
    """Returns that grow with the frames; a folder as `experiments.train` leaves it."""
    folder.mkdir(parents=True)
    config = {"env": "doorkey_6x6", "agent": "a2c", "bonus": bonus, "preset": "paper"}
    config |= {"init": None}
    config |= {
        "seed": first,
        "seeds": len(finals),
        "out": str(folder),
        "chunk_updates": len(finals),
    }
    config |= {"steps": frames[-1] if frames else 0, "re3": {"beta": 0.1, "latent_dim": 64}}
    (folder / CONFIG).write_text(json.dumps({"config": config | options}))
    with (folder / "eval.csv").open("w") as out:
        out.write("seed,env_frames,wall_seconds,episodes,return_mean,return_std,length_mean\n")
        for x in frames:
            for seed, final in enumerate(finals, first):
                out.write(f"{seed},{x},1.0,4,{final * x / frames[-1]},0,9\n")
    return folder


def finish(runs, run, returns, **summary):
    """The folder of a figure's run, all of whose seeds have these returns (env frames -> return).

    `summary` has entries of summary.json that differ from those of a finished run.
    """
    folder = runs.folder_of(run)
    folder.mkdir(parents=True, exist_ok=True)
    run_folder.write_config(folder, runs.config(run))
    seeds = range(run.seed, run.seed + run.seeds)
    with (folder / "eval.csv").open("w") as out:
        out.write("seed,env_frames,wall_seconds,episodes,return_mean,return_std,length_mean\n")
        for frames, value in returns.items():
            out.writelines(f"{seed},{frames},1.0,4,{value},0,9\n" for seed in seeds)
    ended = {
        "complete": True,
        "env_frames": max(returns),
        "final_return": dict.fromkeys(map(str, seeds), 0.0),
        "wall_seconds": 100.0,
        "train_seconds": 80.0,
        "evaluation_seconds": 9.0,
    }
    (folder / "summary.json").write_text(json.dumps(ended | summary))
    return folder
