"""Pre-trained encoders against the same networks in PyTorch, through files that PyTorch wrote."""

import jax
import numpy as np
import pytest
import safetensors.torch
import torch
import torch.nn.functional as F

from re3_jax.intrinsic import pretrained
from re3_jax.networks import weights_file
from tests.torch_oracle import atc, resnet

MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
STD = torch.tensor([0.229, 0.224, 0.225])[:, None, None]


def frames(number, height, width, channels, seed=0):
    """Random colours in blocks of 12x12 pixels, because pure noise has the same mean everywhere."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (number, 25, 25, channels), np.uint8)
    return np.kron(blocks, np.ones((1, 12, 12, 1), np.uint8))[:, :height, :width]


def as_torch(images):
    return torch.tensor(images).permute(0, 3, 1, 2).float()


def resized(images, size):
    options = {"mode": "bilinear", "align_corners": False, "antialias": True}
    return F.interpolate(images, (size, size), **options)


def encode(encoder, observation):
    return np.asarray(jax.jit(lambda o: encoder.encode((), o))(observation))


def save(content, path, is_legacy=False):
    torch.save(content, path, _use_new_zipfile_serialization=not is_legacy)
    return path


@pytest.fixture(scope="module")
def resnet_network():
    return resnet.with_random_weights(0)


@pytest.fixture(scope="module")
def resnet_file(resnet_network, tmp_path_factory):
    return save(resnet_network.state_dict(), tmp_path_factory.mktemp("resnet") / "resnet50.pth")


@pytest.mark.slow
def test_imagenet_features_equal_pytorch(resnet_network, resnet_file):
    observation = frames(3, 100, 84, 9)
    with torch.no_grad():
        image = resized(as_torch(observation[..., 6:]) / 255, 224)
        expected = resnet_network((image - MEAN) / STD).numpy()
    encoder = pretrained.imagenet_encoder(pretrained.load_imagenet(resnet_file))
    features = encode(encoder, observation)
    assert features.shape == (3, 2048)
    assert expected.std() > 0.1 and abs(expected[0] - expected[1]).max() > 0.1
    np.testing.assert_allclose(features, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("written", ["legacy", "safetensors"])
def test_other_formats_of_the_same_weights(written, resnet_network, resnet_file, tmp_path):
    state, path = resnet_network.state_dict(), tmp_path / "resnet50"
    if written == "legacy":
        save(state, path, is_legacy=True)
    else:
        safetensors.torch.save_file(state, path)
    expected = weights_file.read(resnet_file)
    tensors = weights_file.read(path)
    assert tensors.keys() == expected.keys() == state.keys()
    for name, array in tensors.items():
        np.testing.assert_array_equal(array, expected[name])
        np.testing.assert_array_equal(array, state[name].numpy())


@pytest.mark.parametrize(
    ("height", "width", "is_legacy"), [(84, 84, False), (100, 100, True), (64, 90, False)]
)
def test_atc_equals_pytorch(height, width, is_legacy, tmp_path):
    torch.manual_seed(1)
    network = atc.Encoder(filters=8, code=20)
    snapshot = atc.snapshot(network)
    path = save(snapshot, tmp_path / "params.pkl", is_legacy)
    observation = frames(4, height, width, 9)
    with torch.no_grad():
        code, features = network(resized(as_torch(observation), 84))
    ours = encode(pretrained.atc_encoder(pretrained.load_atc(path)), observation)
    assert code.std() > 0.01
    np.testing.assert_allclose(ours, code, atol=1e-5)
    encoder = pretrained.atc_encoder(pretrained.load_atc(path, "features"))
    by_position = features.permute(0, 2, 3, 1).flatten(1)
    np.testing.assert_allclose(encode(encoder, observation), by_position, atol=1e-5)


def test_places_of_the_atc_encoder(tmp_path):
    """A whole pre-training snapshot, parts of it, and rlpyt's agent trained from it."""
    network = atc.Encoder(filters=8, code=20)
    state = network.state_dict()
    convs = {name: value for name, value in state.items() if name.startswith("conv.")}
    contents = {
        "code": [atc.snapshot(network), {"encoder": state}, state],
        "features": [{"agent_state_dict": {"conv": convs}}, {"conv": convs}, convs],
    }
    for output, several in contents.items():
        for number, content in enumerate(several):
            path = save(content, tmp_path / f"{output}{number}")
            loaded = pretrained.load_atc(path, output)
            kernel = network.conv.conv[6].weight.permute(2, 3, 1, 0).detach()
            np.testing.assert_array_equal(loaded.convs.layers[3].kernel, kernel)
            assert (loaded.head is None) == (output == "features")


@pytest.mark.parametrize("sizes", [(100, 224), (84, 224), (300, 224), (100, 84), (64, 84)])
def test_resize_is_pytorchs(sizes):
    """What torchvision's Resize does to tensors, smaller and larger."""
    old, new = sizes
    images = frames(2, old, old - 7, 3)
    expected = resized(as_torch(images), new).permute(0, 2, 3, 1)
    ours = pretrained.resize(images.astype(np.float32), new)
    np.testing.assert_allclose(ours, expected, atol=0.01)
