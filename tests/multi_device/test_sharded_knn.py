"""A ring split over eight (virtual) devices gives the same results as the whole ring."""

import subprocess
import sys

from tests import virtual_devices

SCRIPT = """
import functools
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
from re3_jax import knn
from re3_jax.replay import latent_ring

assert jax.device_count() == 8
rng = np.random.default_rng(0)
latents = rng.normal(size=(8 * 600, 5)).round(1).astype(np.float32)
queries, own_row = latents[100:4800:200], np.arange(100, 4800, 200)
whole, _ = latent_ring.add(latent_ring.init(4800, 5), latents)
mesh = Mesh(jax.devices(), ("ring",))

def cut(check_vma, search):
    @jax.jit
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("ring"), P()),
                       out_specs=P("ring"), check_vma=check_vma)
    def run(queries, rows, own_row):
        ring, _ = latent_ring.add(latent_ring.init(600, 5), rows)
        return search(queries, ring, own_row)[None]
    return run(queries, latents, own_row)

for check_vma, k, excluding in ((True, 1, False), (True, 5, True), (False, 5, False)):
    def search(queries, ring, own_row, axis_name="ring"):
        return knn.nearest_distances(
            queries, ring, k=k, exclude=own_row if excluding else None, axis_name=axis_name
        )
    found = cut(check_vma, search)
    expected = jax.jit(functools.partial(search, axis_name=None))(queries, whole, own_row)
    assert found.shape == (8, *expected.shape)
    for of_one_device in found:
        np.testing.assert_allclose(of_one_device, expected, rtol=1e-6)

# Slices that are filled unevenly, one of them empty, and more neighbours than a slice has rows.
fill = [0, 3, 1, 600, 2, 5, 7, 599]
kept = np.concatenate([latents[600 * i : 600 * i + n] for i, n in enumerate(fill)])
uneven, _ = latent_ring.add(latent_ring.init(4800, 5), kept)
@jax.jit
@functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("ring"), P("ring")),
                   out_specs=P("ring"))
def partly(queries, rows, count):
    norms = jnp.sum(rows**2, axis=1)
    ring = latent_ring.init(600, 5)._replace(
        latents=rows, squared_norms=norms, cursor=count[0] % 600, num_valid=count[0]
    )
    return knn.mean_distance(queries, ring, k=620, first=2, axis_name="ring")[None]
found = partly(queries, latents, jnp.array(fill))
expected = jax.jit(functools.partial(knn.mean_distance, k=620, first=2))(queries, uneven)
np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-6)

# One ring per seed, seeds split over the devices and vmapped within each.
seeds = jnp.stack([latents[: 600 * (i // 2 + 1)][-600:] + i for i in range(16)])
def one(rows):
    ring, own = latent_ring.add(latent_ring.init(3000, 5), rows)
    return knn.kth_distance(rows[:20], ring, k=3, exclude=own[:20])
spread = jax.jit(jax.shard_map(jax.vmap(one), mesh=mesh, in_specs=P("ring"), out_specs=P("ring")))
single = jax.jit(one)
np.testing.assert_allclose(spread(seeds), [single(rows) for rows in seeds], rtol=1e-6)
print("equal")
"""


def test_eight_slices_equal_the_whole():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=virtual_devices.environment(8),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("equal")
