"""Networks that no zoo has, with seeded random weights, to race: `benchmarks/networks.py:NAME`.

Each function returns a module and its inputs, as a file of your own does.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Built = tuple[nn.Module, tuple[Tensor, ...]]


class WaveNet(nn.Module):
    """Gated, dilated convolutions of a signal (van den Oord et al., 2016)."""

    def __init__(self, width: int = 64, layers: int = 10) -> None:
        super().__init__()
        self.first, self.last = nn.Conv1d(1, width, 1), nn.Conv1d(width, 1, 1)
        self.gates = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 3, padding=2**i, dilation=2**i) for i in range(layers)
        )
        self.outputs = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        skips = torch.zeros_like(x)
        for gate, output in zip(self.gates, self.outputs, strict=True):
            a, b = gate(x).chunk(2, 1)
            y = output(torch.tanh(a) * torch.sigmoid(b))
            skips, x = skips + y, x + y
        result: Tensor = self.last(F.relu(skips))
        return result


def wavenet() -> Built:
    return WaveNet(), (torch.randn(1, 1, 8000),)


def temporal() -> Built:
    """A temporal convolution network: windows of three steps, each layer's twice as far apart."""
    layers = [(nn.Conv1d(128, 128, 3, padding=2**i, dilation=2**i), nn.ReLU()) for i in range(5)]
    return nn.Sequential(*(part for layer in layers for part in layer)), (torch.randn(1, 128, 800),)


def speech_features() -> Built:
    """The layers of wav2vec 2.0 that read the wave, over a second of it."""
    layers: list[nn.Module] = [nn.Conv1d(1, 512, 10, 5), nn.GELU()]
    for size in (3, 3, 3, 3, 2, 2):
        layers += [nn.Conv1d(512, 512, size, 2), nn.GELU()]
    return nn.Sequential(*layers), (torch.randn(1, 1, 16000),)


def dilated() -> Built:
    """The last layers of a backbone that keeps its images at 28 x 28, as FCN's and DeepLab's."""
    layers = [(nn.Conv2d(256, 256, 3, padding=d, dilation=d), nn.ReLU()) for d in (1, 2, 4)]
    return nn.Sequential(*(part for layer in layers for part in layer)), (torch.randn(1, 256, 28, 28),)


class ResidualWindows(nn.Module):
    """Dilated windows of one size, each pair added to what it reads."""

    def __init__(self, width: int, taps: int) -> None:
        super().__init__()
        self.dilated = nn.ModuleList(
            nn.Conv1d(width, width, taps, padding=taps // 2 * d, dilation=d) for d in (1, 3, 5)
        )
        self.dense = nn.ModuleList(nn.Conv1d(width, width, taps, padding=taps // 2) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for dilated, dense in zip(self.dilated, self.dense, strict=True):
            x = x + dense(F.leaky_relu(dilated(F.leaky_relu(x, 0.1)), 0.1))
        return x


class Vocoder(nn.Module):
    """A wave from a mel spectrogram, by windows of 3, 7 and 11 samples at once (Kong et al., 2020)."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, width, 7, padding=3)
        widths = [width >> i for i in range(5)]
        self.steps = nn.ModuleList(
            nn.ConvTranspose1d(a, b, 2 * rate, rate, rate // 2)
            for (a, b), rate in zip(pairwise(widths), (8, 8, 2, 2), strict=True)
        )
        self.windows = nn.ModuleList(
            nn.ModuleList(ResidualWindows(b, taps) for taps in (3, 7, 11)) for b in widths[1:]
        )
        self.last = nn.Conv1d(widths[-1], 1, 7, padding=3)

    def forward(self, mels: Tensor) -> Tensor:
        x = self.first(mels)
        for step, windows in zip(self.steps, self.windows, strict=True):
            x = step(F.leaky_relu(x, 0.1))
            x = torch.stack([one(x) for one in windows]).mean(0)
        return torch.tanh(self.last(F.leaky_relu(x)))


def vocoder() -> Built:
    return Vocoder(), (torch.randn(1, 80, 32),)


def postnet() -> Built:
    """What Tacotron 2 refines its mel spectrogram by: windows of five frames."""
    widths = [80, 512, 512, 512, 512, 80]
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Conv1d(a, b, 5, padding=2), nn.BatchNorm1d(b), nn.Tanh()]
    return nn.Sequential(*layers[:-1]), (torch.randn(1, 80, 200),)


class ConvTasNet(nn.Module):
    """Two voices in one signal of 16,000 samples (Luo and Mesgarani, 2019)."""

    def __init__(self, channels: int = 256, width: int = 128) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, channels, 16, 8, bias=False)
        self.decoder = nn.ConvTranspose1d(channels, 1, 16, 8, bias=False)
        self.before = nn.Sequential(nn.GroupNorm(1, channels), nn.Conv1d(channels, width, 1))
        self.blocks = nn.ModuleList(self._block(channels, width, 2**i) for _ in range(2) for i in range(6))
        self.masks = nn.Conv1d(width, 2 * channels, 1)

    def _block(self, channels: int, width: int, dilation: int) -> nn.Module:
        depthwise = nn.Conv1d(channels, channels, 3, 1, dilation, dilation, channels)
        first = nn.Conv1d(width, channels, 1), nn.PReLU(), nn.GroupNorm(1, channels)
        return nn.Sequential(
            *first, depthwise, nn.PReLU(), nn.GroupNorm(1, channels), nn.Conv1d(channels, width, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        encoded = F.relu(self.encoder(x))
        y = self.before(encoded)
        for block in self.blocks:
            y = y + block(y)
        masks = torch.sigmoid(self.masks(y)).unflatten(1, (2, -1))
        result: Tensor = self.decoder((masks * encoded.unsqueeze(1)).flatten(0, 1))
        return result


def conv_tasnet() -> Built:
    return ConvTasNet(), (torch.randn(1, 1, 16000),)


class PointNet(nn.Module):
    """The greatest of each feature over 1,024 points (Qi et al., 2017)."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 64, 64, 128, 1024)
        layers = [
            nn.Sequential(nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()) for a, b in pairwise(widths)
        ]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 40))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.features(x).max(2)[0])
        return result


def pointnet() -> Built:
    return PointNet(), (torch.randn(1, 3, 1024),)


def _styled(inputs: int, outputs: int, size: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, size, stride)
    return [nn.ReflectionPad2d(size // 2), convolution, nn.InstanceNorm2d(outputs, affine=True)]


class Residual(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.layers(x)
        return result


def style_transfer() -> Built:
    """An image in the style of another (Johnson et al., 2016), with instance norms."""
    down = (
        *_styled(3, 32, 9),
        nn.ReLU(),
        *_styled(32, 64, 3, 2),
        nn.ReLU(),
        *_styled(64, 128, 3, 2),
        nn.ReLU(),
    )
    middle = (Residual(*_styled(128, 128, 3), nn.ReLU(), *_styled(128, 128, 3)) for _ in range(3))
    up = [
        layer
        for a, b in ((128, 64), (64, 32))
        for layer in (nn.Upsample(scale_factor=2), *_styled(a, b, 3), nn.ReLU())
    ]
    network = nn.Sequential(*down, *middle, *up, nn.ReflectionPad2d(4), nn.Conv2d(32, 3, 9))
    return network, (torch.randn(1, 3, 224, 224),)


def unet_of_volumes() -> Built:
    """The first level of a 3-D U-Net, with instance norms (Isensee et al., 2021)."""

    def normed(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        layer = nn.Conv3d(inputs, outputs, 3, stride, 1)
        return [layer, nn.InstanceNorm3d(outputs), nn.LeakyReLU()]

    last = nn.Conv3d(32, 32, 3, padding=1), nn.LeakyReLU(), nn.ConvTranspose3d(32, 16, 2, 2)
    network = nn.Sequential(*normed(1, 16, 1), *normed(16, 32, 2), *last, nn.Conv3d(16, 2, 1))
    return network, (torch.randn(1, 1, 32, 48, 48),)


class StyleGenerator(nn.Module):
    """Convolutions whose weights a style scales (Karras et al., 2020)."""

    def __init__(self, channels: int = 128, layers: int = 8) -> None:
        super().__init__()
        self.styles = nn.Sequential(
            *(nn.Sequential(nn.Linear(128, 128), nn.LeakyReLU(0.2)) for _ in range(4))
        )
        self.start = nn.Parameter(torch.randn(1, channels, 4, 4))
        outputs = [channels] * layers
        self.scales = nn.ModuleList(nn.Linear(128, channels) for _ in outputs)
        self.weights = nn.ParameterList(torch.randn(count, channels, 3, 3) for count in outputs)

    def forward(self, z: Tensor) -> Tensor:
        style, x = self.styles(F.normalize(z, dim=1)), self.start
        for i, (scale, weight) in enumerate(zip(self.scales, self.weights, strict=True)):
            if i % 2:
                x = F.interpolate(x, scale_factor=2, mode="bilinear")
            scaled = weight * scale(style)[0, :, None, None]
            scaled = scaled * torch.rsqrt(scaled.square().sum((1, 2, 3), keepdim=True) + 1e-8)
            x = F.leaky_relu(F.conv2d(x, scaled, padding=1), 0.2)
        return x


def style_generator() -> Built:
    return StyleGenerator(), (torch.randn(1, 128),)


def fsrcnn() -> Built:
    """An image twice as large, by a transposed convolution with one output (Dong et al., 2016)."""
    middle = [layer for _ in range(4) for layer in (nn.Conv2d(12, 12, 3, padding=1), nn.PReLU(12))]
    first = nn.Conv2d(1, 56, 5, padding=2), nn.PReLU(56), nn.Conv2d(56, 12, 1), nn.PReLU(12)
    last = nn.Conv2d(12, 56, 1), nn.PReLU(56), nn.ConvTranspose2d(56, 1, 9, 2, 4, 1)
    return nn.Sequential(*first, *middle, *last), (torch.randn(1, 1, 128, 128),)


class Pyramid(nn.Module):
    """Windows dilated nearly as far as an image reaches, and beyond (DeepLab's head; Chen et al., 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(960, 256, 3, padding=d, dilation=d) for d in (12, 24, 36))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([convolution(x) for convolution in self.convolutions], 1)


def pyramid() -> Built:
    return Pyramid(), (torch.randn(1, 960, 14, 14),)


class Spectrogram(nn.Module):
    """Words in a second of sound, by its spectrogram of 64 bands."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(400))
        self.register_buffer("bands", torch.rand(201, 64))
        convolutions = nn.Conv2d(1, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU()
        self.layers = nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.stft(x, 400, 160, window=self.window, return_complex=True).abs().square()
        result: Tensor = self.layers((spectrum.mT @ self.bands + 1e-6).log().unsqueeze(1))
        return result


def spectrogram() -> Built:
    return Spectrogram(), (torch.randn(1, 16000),)


class Edges(nn.Module):
    """Directions of an image's edges, with borders of every kind, and patches taken apart and joined."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer(
            "ramp", torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]]).expand(3, 1, 3, 3).clone()
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for mode in ("reflect", "replicate", "circular"):
            x = F.pad(x, (5, 5, 5, 5), mode=mode)
        across, down = (F.conv2d(x, ramp, padding=1, groups=3) for ramp in (self.ramp, self.ramp.mT))
        patches = F.unfold(x, 7, padding=3)
        return torch.atan2(down, across), F.fold(patches * (patches > 0), x.shape[2:], 7, padding=3)


def edges() -> Built:
    return Edges(), (torch.randn(1, 3, 96, 128),)


class Splines(nn.Module):
    """B-splines of each number, from comparisons and differences with knots (Liu et al., 2024)."""

    def __init__(self, inputs: int, outputs: int, order: int = 3, cells: int = 5) -> None:
        super().__init__()
        places = torch.arange(-order, cells + order + 1) * 2 / cells - 1
        self.register_buffer("knots", places.expand(inputs, -1).contiguous())
        self.order, self.layer = order, nn.Linear(inputs * (cells + order), outputs)

    def forward(self, x: Tensor) -> Tensor:
        x, t = x.unsqueeze(-1), self.knots
        y = ((x >= t[:, :-1]) & (x < t[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            rising = (x - t[:, : -(k + 1)]) / (t[:, k:-1] - t[:, : -(k + 1)]) * y[..., :-1]
            y = rising + (t[:, k + 1 :] - x) / (t[:, k + 1 :] - t[:, 1:-k]) * y[..., 1:]
        result: Tensor = self.layer(y.flatten(1))
        return result


def splines() -> Built:
    return nn.Sequential(Splines(784, 64), Splines(64, 10)), (torch.randn(32, 784),)


class CausalBlock(nn.Module):
    """A bottleneck that sees frames before its own, and weighs each frame (Kondratyuk et al., 2021)."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.expand, self.project = nn.Conv3d(channels, inner, 1), nn.Conv3d(inner, channels, 1)
        self.deep = nn.Conv3d(inner, inner, (5, 3, 3), padding=(0, 1, 1), groups=inner)
        self.squeeze, self.excite = nn.Conv3d(inner, 8, 1), nn.Conv3d(8, inner, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.pad(F.hardswish(self.expand(x)), (0, 0, 0, 0, 4, 0))
        y = F.hardswish(self.deep(y))
        gates = self.excite(F.relu(self.squeeze(y.mean((3, 4), keepdim=True))))
        return x + self.project(y * F.hardsigmoid(gates))


def causal_video() -> Built:
    images = nn.Sequential(nn.Conv3d(3, 24, (1, 3, 3), (1, 2, 2), (0, 1, 1)), nn.Hardswish())
    blocks = [CausalBlock(24, 64) for _ in range(4)]
    return nn.Sequential(images, *blocks, nn.AvgPool3d((1, 48, 48))), (torch.randn(1, 3, 8, 96, 96),)


class Experts(nn.Module):
    """Of 16 gated layers each token goes through the two that a router likes best (Jiang et al., 2024)."""

    def __init__(self, experts: int = 16, width: int = 256, inner: int = 384) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter((torch.randn(experts, 2 * inner, width) / 16).bfloat16())
        self.down = nn.Parameter((torch.randn(experts, width, inner) / 16).bfloat16())

    def forward(self, x: Tensor) -> Tensor:
        scores, chosen = self.router(x).softmax(-1).topk(2)
        order = chosen.flatten().argsort()
        experts = torch.arange(self.up.shape[0])
        ends = (chosen.flatten() <= experts.unsqueeze(1)).sum(1).to(torch.int32)
        # torch traces this product in bfloat16 alone.
        a, b = F.grouped_mm(x[order // 2].bfloat16(), self.up.mT, offs=ends).chunk(2, -1)
        y = F.grouped_mm(F.silu(a) * b, self.down.mT, offs=ends).float() * scores.flatten()[order, None]
        return x + torch.zeros_like(y).index_copy(0, order, y).unflatten(0, (-1, 2)).sum(1)


def mixture() -> Built:
    return nn.Sequential(Experts(), nn.LayerNorm(256), Experts(), nn.LayerNorm(256)), (torch.randn(128, 256),)


class ExpertChoice(nn.Module):
    """Of 16 layers each takes the tokens that its router likes best (Zhou et al., 2022)."""

    def __init__(self, experts: int = 16, width: int = 256, inner: int = 512, capacity: int = 8) -> None:
        super().__init__()
        self.capacity, self.router = capacity, nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, inner) / 16)
        self.down = nn.Parameter(torch.randn(experts, inner, width) / 16)

    def forward(self, x: Tensor) -> Tensor:
        scores, chosen = self.router(x).softmax(-1).topk(self.capacity, 0)
        taken = x[chosen.mT]
        y = torch.bmm(F.silu(torch.bmm(taken, self.up)), self.down) * scores.mT[..., None]
        return x.index_add(0, chosen.mT.flatten(), y.flatten(0, 1))


def expert_choice() -> Built:
    return nn.Sequential(ExpertChoice(), nn.LayerNorm(256), ExpertChoice()), (torch.randn(512, 256),)


class Steps(nn.Module):
    """A plain recurrent layer over a long sequence (Elman, 1990)."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.RNN(64, 128, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(x)[0]
        return result


def elman() -> Built:
    return Steps(), (torch.randn(4, 50, 64),)
