"""The choice of renderer, with and without a driver."""

import pytest

from re3_jax.envs.host import drawn_by, envpool, gl, make, renderer
from re3_jax.envs.host.config import DMCConfig

CPU = gl.Driver("egl", "llvmpipe (LLVM 15.0.6, 256 bits)", on_gpu=False)


@pytest.fixture
def driver(monkeypatch):
    def put(found):
        monkeypatch.setattr(gl, "probe", lambda: found)

    return put


@pytest.fixture
def fresh_probe(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    gl.probe.cache_clear()
    yield
    gl.probe.cache_clear()


def answers(monkeypatch, drivers):
    asked = []

    def answer(backend, **variables):
        asked.append(backend)
        return drivers.get(backend)

    monkeypatch.setattr(gl, "_try", answer)
    return asked


def test_egl_comes_before_osmesa(monkeypatch, fresh_probe):
    answers(monkeypatch, {"egl": "NVIDIA H100 80GB HBM3/PCIe/SSE2", "osmesa": "softpipe"})
    assert gl.probe() == gl.Driver("egl", "NVIDIA H100 80GB HBM3/PCIe/SSE2", on_gpu=True)


def test_osmesa_is_taken_where_egl_is_missing(monkeypatch, fresh_probe):
    answers(monkeypatch, {"osmesa": "llvmpipe (LLVM 15)"})
    assert gl.probe() == gl.Driver("osmesa", "llvmpipe (LLVM 15)", on_gpu=False)


def test_the_backend_that_is_asked_for_is_the_only_one_tried(monkeypatch, fresh_probe):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    asked = answers(monkeypatch, {"egl": "llvmpipe"})
    assert gl.probe() is None
    assert asked == ["osmesa"]


def test_the_answer_is_kept(monkeypatch, fresh_probe):
    asked = answers(monkeypatch, {})
    assert gl.probe() is gl.probe() is None
    assert asked == ["egl", "osmesa"]


def test_a_driver_that_crashes_the_process_is_rejected(monkeypatch):
    monkeypatch.setattr(gl, "_PROBE", "import os; print('driver: x', flush=True); os.abort()")
    assert gl._try("egl") is None


def test_auto_is_gl_where_a_driver_works_and_warp_elsewhere(driver):
    driver(CPU)
    assert renderer.choose(DMCConfig()) == "gl"
    driver(None)
    assert renderer.choose(DMCConfig()) == "warp"


@pytest.mark.parametrize("name", ["gl", "gl_small_shadows", "gl_cheap"])
def test_gl_is_never_replaced_silently(driver, name):
    driver(CPU)
    assert renderer.choose(DMCConfig(renderer=name)) == name
    driver(None)
    with pytest.raises(ValueError, match="apt-get install -y libegl1 libegl-mesa0 libgl1-mesa-dri"):
        renderer.choose(DMCConfig(renderer=name))


def test_envpool_draws_if_it_says_so(driver, monkeypatch):
    """It has its own MuJoCo, so what dm_control finds does not matter."""
    driver(None)
    monkeypatch.setattr(envpool, "failure", lambda: None)
    assert drawn_by("cheetah_run", DMCConfig(engine="envpool")) == "gl"
    assert drawn_by("cheetah_run", DMCConfig(engine="envpool", renderer="gl_cheap")) == "gl_cheap"
    monkeypatch.setattr(envpool, "failure", lambda: "no device")
    with pytest.raises(ValueError, match=r"no device.*apt-get.*engine dm_control"):
        drawn_by("cheetah_run", DMCConfig(engine="envpool"))


def test_warp_without_its_package_is_one_sentence(monkeypatch):
    monkeypatch.setattr(renderer, "_has_warp", lambda: False)
    with pytest.raises(ValueError, match="pip install"):
        renderer.choose(DMCConfig(renderer="warp"))


def test_warp_refuses_a_task_whose_goal_it_does_not_draw():
    with pytest.raises(ValueError, match="cannot draw the terrain of quadruped_escape"):
        make("quadruped_escape", DMCConfig(renderer="warp"), 1)


def test_workers_take_turns_on_the_visible_gpus(monkeypatch):
    monkeypatch.delenv("MUJOCO_EGL_DEVICE_ID", raising=False)
    monkeypatch.setattr(gl, "_works", lambda device: device != "5")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3,5")
    assert [gl.device(worker) for worker in range(4)] == ["1", "3", None, "1"]
    for unclear in ("", "GPU-8f0e"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", unclear)
        assert gl.device(0) is None
