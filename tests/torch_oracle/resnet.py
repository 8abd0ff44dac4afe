"""torchvision's ResNet-50, written for PyTorch with the same names of tensors."""

import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride, has_shortcut):
        super().__init__()
        wide = 4 * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, wide, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(wide)
        self.downsample = None
        if has_shortcut:
            shortcut = nn.Conv2d(channels, wide, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(wide))

    def forward(self, x):
        out = torch.relu(self.bn1(self.conv1(x)))
        out = torch.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return torch.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        channels = 64
        for number, (count, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], 1):
            blocks = []
            for index in range(count):
                stride = 2 if number > 1 and index == 0 else 1
                blocks.append(Bottleneck(channels, width, stride, index == 0))
                channels = 4 * width
            setattr(self, f"layer{number}", nn.Sequential(*blocks))
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x):
        """The features that `fc` would get."""
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)


def with_random_weights(seed):
    """In inference mode, with the statistics of batch-norm that some images of blocks have."""
    torch.manual_seed(seed)
    network = ResNet50()
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if isinstance(module, nn.BatchNorm2d):
            module.weight.data.uniform_(0.2, 0.7)
            module.bias.data.normal_(0.0, 0.3)
            module.momentum = 1.0
    with torch.no_grad():
        network.train()(nn.functional.interpolate(torch.randn(4, 3, 7, 7), (96, 96)))
    return network.eval()
