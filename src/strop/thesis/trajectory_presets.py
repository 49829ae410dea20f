"""The trainings of figures 4.3, 4.6 and 4.7: what each is, and its sizes by preset."""

from dataclasses import dataclass, replace

from strop.data import find_data
from strop.support import InputError
from strop.thesis.photographs import NEEDED


@dataclass(frozen=True)
class Trajectory:
    """One training, its changes to the data, and where it is measured."""

    name: str = "MNIST"
    data: str = "mnist"
    """mnist, fashion-mnist, cifar10, cifar100, photographs, or digits."""
    model: str = "mlp"
    """``mlp`` with ``widths`` or ``resnet-DEPTH`` without normalisation."""
    widths: tuple[int, ...] = (784, 1024, 1024, 10)
    examples: int | None = None
    """So many training pictures; all without it."""
    pooled: int = 1
    """Pictures are averaged over squares of this side; photographs are of 32 pixels before."""
    smoothing: float = 0.0
    corrupt: float = 0.0
    duplicated: int = 0
    copies: int = 0
    augment: bool = False
    rate: float = 0.02
    momentum: float = 0.5
    decay: float = 5e-4
    batch: int = 128
    steps: int = 50_000
    drops: tuple[int, ...] = ()
    """Steps after which the rate is divided by ten."""
    every: int = 500
    draws: int = 50
    refresh: int = 2000
    iterations: int = 10
    """Of the thesis's clustering."""


THESIS_MNIST = Trajectory()
THESIS_CIFAR = Trajectory(
    name="CIFAR-10",
    data="cifar10",
    model="resnet-8",
    rate=0.01,
    momentum=0.9,
    steps=80_000,
    drops=(40_000, 60_000),
    refresh=20_000,
    iterations=3,
)
GPU_MNIST = replace(THESIS_MNIST, every=1000, draws=30, refresh=5000)
LONG_CIFAR = replace(THESIS_CIFAR, every=1000, draws=30)
GPU_CIFAR = replace(
    THESIS_CIFAR, steps=16_000, drops=(8_000, 12_000), every=500, draws=30, refresh=4_000
)
"""A fifth of the thesis's length, where one training after another is compared."""
SMALL_MNIST = replace(
    THESIS_MNIST,
    widths=(784, 64, 64, 10),
    examples=1000,
    batch=32,
    rate=0.1,
    steps=800,
    every=80,
    draws=12,
    refresh=240,
    iterations=3,
)
SMALL_CIFAR = replace(
    THESIS_CIFAR,
    name="CIFAR-10, 16 x 16",
    pooled=2,
    examples=400,
    batch=16,
    rate=0.02,
    steps=400,
    drops=(240, 320),
    every=40,
    draws=10,
    refresh=120,
)
SMALL_PHOTOGRAPHS = replace(
    SMALL_CIFAR,
    name="photographs, ImageNet classes, 16 x 16",
    data="photographs",
    examples=1000,
    decay=1e-4,
    steps=500,
    drops=(250, 375),
    every=50,
    refresh=125,
)
"""In place of ImageNet, its length as the thesis's: eight times over the data (80,000 x 128)."""
SMOKE = Trajectory(
    name="digits",
    data="digits",
    widths=(64, 16, 10),
    examples=120,
    batch=8,
    rate=0.05,
    steps=20,
    every=10,
    draws=10,
    refresh=10,
    iterations=2,
)


def at_hand(one: Trajectory) -> Trajectory:
    """The trajectory, on digits where its data are not there; its name says so."""
    try:
        for name in NEEDED if one.data == "photographs" else (one.data,):
            if name != "digits":
                find_data(name)
    except InputError:
        widths = (64, *one.widths[1:])
        return replace(
            one, data="digits", name=f"{one.name}: digits instead", widths=widths, pooled=1
        )
    return one
