"""Run folders written by hand."""

import json

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
