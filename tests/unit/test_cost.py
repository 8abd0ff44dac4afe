"""The cost of a compiled program, against sums that are known in closed form."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from re3_jax.accelerators import targets
from re3_jax.accelerators.cost import Cost, Counter, report
from re3_jax.accelerators.hlo import parse, parse_shapes
from re3_jax.accelerators.targets import TARGETS
from re3_jax.networks.conv import conv_transpose2d


def of_shape(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def compiled(function, *shapes, donate=()):
    return jax.jit(function, donate_argnums=donate).lower(*shapes).compile()


def test_a_product_in_a_loop_counts_as_often_as_it_runs():
    def steps(x, w):
        return lax.scan(lambda x, _: (jnp.tanh(x @ w), None), x, None, length=7)[0]

    found = report(compiled(steps, of_shape(96, 64), of_shape(64, 64)))
    assert found.cost.operations == 7 * 2 * 96 * 64 * 64
    assert found.arguments == 4 * (96 * 64 + 64 * 64)
    assert found.cost.bytes_accessed >= 7 * 4 * (2 * 96 * 64 + 64 * 64)
    assert found.cost.collectives == 0


def test_a_convolution_counts_its_multiply_adds():
    def conv(x, kernel):
        return lax.conv_general_dilated(
            x, kernel, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    found = report(compiled(conv, of_shape(8, 21, 21, 9), of_shape(3, 3, 9, 32)))
    assert found.cost.operations == 2 * 8 * 10 * 10 * 32 * 3 * 3 * 9


IMAGES, KERNEL, OUT = "8,21,21,9", "3,3,9,32", "8,10,10,32"


@pytest.mark.parametrize(
    ("first", "second", "result", "call", "attributes"),
    [
        (IMAGES, KERNEL, OUT, "Forward", "window={size=3x3}, dim_labels=b01f_01io->b01f"),
        (OUT, KERNEL, IMAGES, "BackwardInput", "window={size=3x3}, dim_labels=b01f_01io->b01f"),
        (IMAGES, OUT, KERNEL, "BackwardFilter", "window={size=3x3}, dim_labels=b01f_01io->b01f"),
        (IMAGES, KERNEL, OUT, None, "window={size=3x3 stride=2x2}, dim_labels=b01f_01io->b01f"),
        (
            *(OUT, KERNEL, IMAGES, None),
            "window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2}, dim_labels=b01f_01oi->b01f",
        ),
        (
            *(IMAGES, OUT, KERNEL, None),
            "window={size=10x10 rhs_dilate=2x2}, dim_labels=f01b_i01o->01bf",
        ),
    ],
)
def test_all_directions_of_a_convolution_have_the_same_operations(
    first, second, result, call, attributes
):
    """cuDNN names the direction; a TPU pads and dilates, which are no operations."""
    opcode, target = "convolution", ""
    if call:
        opcode, target = "custom-call", f', custom_call_target="__cudnn$conv{call}"'
    text = f"""HloModule m
ENTRY %main (a: f32[1], b: f32[1]) -> f32[1] {{
  %a = f32[{first}]{{3,2,1,0}} parameter(0)
  %b = f32[{second}]{{3,2,1,0}} parameter(1)
  ROOT %c = f32[{result}]{{3,2,1,0}} {opcode}(%a, %b), {attributes}{target}
}}
"""
    assert Counter(parse(text)).total.operations == 2 * 8 * 10 * 10 * 32 * 3 * 3 * 9


def test_only_what_is_sliced_moves():
    ring, row = of_shape(5_000, 256), of_shape(1, 256)

    def write(ring, row, n):
        return lax.dynamic_update_slice(ring, row, (n, 0))

    number = of_shape(dtype=jnp.int32)
    found = report(compiled(write, ring, row, number, donate=0))
    assert found.largest_copy == 0
    assert found.cost.bytes_accessed < 8 * 256 * 4
    read = report(compiled(lambda ring, n: lax.dynamic_slice(ring, (n, 0), (1, 256)), ring, number))
    assert read.cost.bytes_accessed < 8 * 256 * 4
    whole = report(compiled(lambda ring: ring + 1, ring))
    assert whole.cost.bytes_accessed == 2 * 5_000 * 256 * 4


def test_a_copy_of_a_ring_is_found():
    """Without donation, writing a row copies the ring."""
    found = report(
        compiled(
            lambda ring, row, n: lax.dynamic_update_slice(ring, row, (n, 0)),
            *(of_shape(5_000, 256), of_shape(1, 256), of_shape(dtype=jnp.int32)),
        )
    )
    assert found.largest_copy == 5_000 * 256 * 4


def test_a_slice_that_is_started_moves_no_more_than_itself():
    """As a TPU's compiler fetches an array in pieces, while something else runs."""
    text = """HloModule m
ENTRY %main (a: s8[51200000]) -> s8[4194304] {
  %a = s8[51200000]{0:T(1024)} parameter(0)
  %s = ((s8[51200000]{0:T(1024)}), s8[4194304]{0:T(1024)S(1)}, s32[]{:S(2)}) slice-start(%a)
  %b = s8[4194304]{0:T(1024)S(1)} slice-done(%s)
  %c = (s8[4194304]{0:T(1024)}, s8[4194304]{0:T(1024)S(1)}, u32[]{:S(2)}) copy-start(%b)
  ROOT %d = s8[4194304]{0:T(1024)} copy-done(%c)
}
"""
    assert Counter(parse(text)).total.bytes_accessed == 2 * 4_194_304


def test_a_kernel_states_its_operations():
    """As XLA writes the metadata of a Pallas kernel into a program; for each seed of a batch."""
    text = r"""HloModule m
ENTRY %main (a: f32[4,512,50]) -> f32[4,100,512] {
  %a = f32[4,512,50]{2,1,0} parameter(0)
  ROOT %c = f32[4,100,512]{2,1,0} custom-call(%a), custom_call_target="__gpu$xla.gpu.triton",
    backend_config={serialized_metadata = "{\22operations_per_number\22: \2290\22}"}
}
""".replace(",\n    ", ", ")
    assert Counter(parse(text)).total.operations == 4 * 100 * 512 * 90


@pytest.mark.parametrize("name", ["h100", "v5e"])
def test_an_exchange_between_devices_counts_as_often_as_it_runs(name):
    """What the compiled runs of four seeds on four devices have none of."""
    target = TARGETS[name]
    if (missing := targets.missing_compiler(target)) is not None:
        pytest.skip(f"no compiler for {name}: {missing} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mesh = Mesh(np.array(targets.devices(target)), ("seed",))
    own, shared = NamedSharding(mesh, PartitionSpec("seed")), NamedSharding(mesh, PartitionSpec())

    def averaged(x):
        def step(x, _):
            return jnp.sin(x) + jnp.mean(x, axis=0), None

        return lax.scan(step, x, None, length=5)[0]

    shape = jax.ShapeDtypeStruct((4, 256), jnp.float32, sharding=own)
    assert report(jax.jit(averaged).lower(shape).compile()).cost.collectives == 5
    alone = jax.jit(jnp.sin, out_shardings=own).lower(shape)
    assert report(alone.compile()).cost.collectives == 0
    gathered = jax.jit(jnp.sin, out_shardings=shared).lower(shape)
    assert report(gathered.compile()).cost.collectives == 1


def test_a_loop_of_unknown_length_counts_as_often_as_asked():
    def search(x, n):
        return lax.fori_loop(0, n, lambda i, x: jnp.sin(x) @ x, jnp.cos(x) @ x)

    program = parse(compiled(search, of_shape(64, 64), of_shape(dtype=jnp.int32)).as_text())
    for times in (0, 1, 3):
        assert Counter(program, times).total.operations == (1 + times) * 2 * 64**3


@pytest.mark.parametrize(
    ("text", "num_bytes", "on_chip"),
    [
        ("f32[10,3]{1,0}", 120, False),
        ("u8[100,100,3]{2,1,0:T(8,128)(4,1)}", 100 * 104 * 128, False),
        ("u8[100,100,3]{1,0,2:T(8,128)(4,1)}", 3 * 104 * 128, False),
        ("f32[4,256]{1,0:T(4,128)S(1)}", 4096, True),
        ("pred[]", 1, False),
        ("bf16[7]{0}", 14, False),
    ],
)
def test_sizes_are_those_in_memory(text, num_bytes, on_chip):
    (shape,) = parse_shapes(text)
    assert (shape.num_bytes, shape.is_on_chip) == (num_bytes, on_chip)


def test_the_least_time_is_the_larger_of_the_two():
    h100 = TARGETS["h100"]
    assert Cost(operations=67e12, bytes_accessed=1).seconds(h100) == 1
    assert Cost(operations=1, bytes_accessed=2 * 3.35e12).seconds(h100) == 2


def test_what_is_no_program_is_refused():
    with pytest.raises(ValueError, match="has no ENTRY"):
        parse("HloModule nothing")


@pytest.mark.parametrize("name", TARGETS)
def test_a_compiler_takes_the_form_of_its_device(name):
    """Where functions differ by platform, a program for an accelerator has the accelerator's."""
    target = TARGETS[name]
    if (missing := targets.missing_compiler(target)) is not None:
        pytest.skip(f"no compiler for {name}: {missing} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        device, *others = targets.devices(target)
    assert len(others) == 3 and device.platform == {"cuda": "gpu"}.get(target.platform, "tpu")
    sharding = jax.sharding.SingleDeviceSharding(device)
    program = jax.jit(
        lambda x: lax.platform_dependent(x, cpu=lambda x: x @ x.T @ x, default=lambda x: x @ x),
        in_shardings=sharding,
    )
    found = report(program.lower(of_shape(256, 256)).compile())
    assert found.cost.operations == 2 * 256**3


@pytest.mark.parametrize("side", [1, 13])
def test_the_images_gradients_of_two_seeds_take_twice_the_products_of_one(side):
    """XLA's own take four times as many in groups; padding is counted, so it is not exactly two."""
    target = TARGETS["h100"]
    if (missing := targets.missing_compiler(target)) is not None:
        pytest.skip(f"no compiler for {target.name}: {missing} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sharding = jax.sharding.SingleDeviceSharding(targets.devices(target)[0])

    def products(function, *shapes):
        program = jax.jit(function, in_shardings=sharding)
        return report(program.lower(*(of_shape(*s) for s in shapes)).compile()).cost.operations

    def image(x, kernel):
        return conv_transpose2d(x, kernel, jnp.zeros(32), stride=2)

    shapes = (100, side, side, 64), (6, 6, 32, 64)
    one = products(image, *shapes)
    assert one == 2 * 100 * side * side * 6 * 6 * 32 * 64
    two = products(jax.vmap(image), *((2, *shape) for shape in shapes))
    assert 2 * one <= two <= 3 * one


@pytest.mark.parametrize("name", TARGETS)
def test_a_compiler_that_is_not_there(monkeypatch, name):
    target = TARGETS[name]
    monkeypatch.setattr(targets.importlib.util, "find_spec", lambda package: None)
    with pytest.raises(ImportError, match=f"compiling for {name} needs "):
        targets.devices(target)


def test_a_compiler_that_jax_has_not_taken(monkeypatch):
    """JAX raises this once the plugin has looked for a driver and found none."""

    def refuse(*names, **options):
        raise NotImplementedError("topology not implemented for cuda")

    monkeypatch.setattr(targets, "missing_compiler", lambda target: None)
    monkeypatch.setattr(targets.topologies, "get_topology_desc", refuse)
    with pytest.raises(RuntimeError, match="set JAX_PLATFORMS=cpu before"):
        targets.devices(TARGETS["h100"])
