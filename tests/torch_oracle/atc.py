"""rlpyt's encoder for ATC on DeepMind Control, written for PyTorch with the same names."""

import torch
from torch import nn


class Convolutions(nn.Module):
    """rlpyt's Conv2dModel: every convolution is followed by a ReLU."""

    def __init__(self, channels, filters):
        super().__init__()
        sizes = [channels, *[filters] * 4]
        layers = []
        for inside, outside, stride in zip(sizes, sizes[1:], (2, 2, 2, 1), strict=False):
            layers += [nn.Conv2d(inside, outside, 3, stride), nn.ReLU()]
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        return self.conv(x)


class Mlp(nn.Module):
    """rlpyt's MlpModel, here without hidden layers."""

    def __init__(self, inside, outside):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(inside, outside))

    def forward(self, x):
        return self.model(x)


class Encoder(nn.Module):
    """rlpyt's EncoderModel: returns the code and the last convolution's output."""

    def __init__(self, channels=9, filters=32, code=128):
        super().__init__()
        self.conv = Convolutions(channels, filters)
        self.head = Mlp(filters * 7 * 7, code)

    def forward(self, observation):
        features = self.conv(observation.float() * (1.0 / 255))
        return self.head(features.flatten(1)), features


def snapshot(encoder):
    """A snapshot of rlpyt's runner, with weights of other networks and of the optimiser."""
    other = Encoder(encoder.conv.conv[0].in_channels, encoder.conv.conv[0].out_channels)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    encoder(torch.zeros(1, encoder.conv.conv[0].in_channels, 84, 84))[0].sum().backward()
    optimizer.step()
    return {
        "itr": 9_999,
        "algo_state_dict": {
            "encoder": encoder.state_dict(),
            "target_encoder": other.state_dict(),
            "contrast": {"W": torch.eye(3)},
            "optimizer": optimizer.state_dict(),
        },
    }
