"""``strop attacks evaluate``: how robust is a classifier."""

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table
from torch import nn

from strop.attacks import Attack, accuracy_curve, norm_from_name, quick_suite, standard_suite
from strop.attacks.names import BandName, NormName
from strop.attacks.pictures import attack_pictures
from strop.attacks.results import AccuracyCurve
from strop.data import LabelledImages, read_images, subset
from strop.geometry import Norm
from strop.models import load_classifier
from strop.support import InputError, settings_to_dict, write_json
from strop.training import choose_device, process_group
from strop.training.distributed import rank
from strop.training.run_folder import describe_run

PIXELS = tuple(f"{value}/255" for value in ("0.5", "1", "2", "4", "8", "12", "16", "20"))
GRIDS: dict[str, tuple[str, ...]] = {
    "linf": PIXELS,
    "fourier-linf": PIXELS,
    "l2": ("0.1", "0.25", "0.5", "1", "1.5", "2"),
    "fourier-l2": ("0.1", "0.25", "0.5", "1", "1.5", "2"),
    "l1": ("2", "4", "8", "12", "16", "24"),
    "fourier-l1": ("2", "4", "8", "16", "32", "64"),
}
NUMBERS, PAGE = "evaluation.json", "index.html"


@dataclass(frozen=True)
class EvaluateSettings:
    """What is attacked, and how."""

    model: str
    """A safetensors file, the name of one under models/ in STROP_DATA, `package.module:factory`, or
    `robustbench:NAME`."""
    data: str
    """Labelled pictures: a folder in the layout of CIFAR, MNIST or class/picture.png, or a name."""
    checkpoint: Path | None = None
    """The weights for `package.module:factory`: safetensors, or a PyTorch file of tensors."""
    split: str = "test"
    count: int = 1000
    """The first so many pictures; 0 for all."""
    norm: NormName = "linf"
    """Of the perturbations."""
    band: BandName = "full"
    """Of a Fourier norm: the frequencies that an attack may use."""
    cutoff: float = 0.25
    """Where low ends and high begins, in cycles per pixel (0.5 is the highest there is)."""
    eps: tuple[str, ...] = ()
    """The budgets, such as 1/255 8/255; without any, a range that suits the norm."""
    suite: Literal["standard", "quick"] = "standard"
    """`standard`: APGD on two losses (one towards each of nine targets), minimum-norm and square
    attacks. `quick`: a few steps of some, to look around."""
    steps: int | None = None
    """Of each attack; by default 100, and 20 for the quick suite."""
    queries: int = 5000
    """Of the square attack, which asks for no gradients; 0 leaves it out."""
    batch_size: int = 250
    precision: Literal["fp32", "bf16"] = "fp32"
    """`bf16` searches in half precision and verifies in float32."""
    seed: int = 0
    check: Literal["raise", "warn", "off"] = "raise"
    """What is done about errors that the preflight finds."""


@dataclass(frozen=True)
class Evaluate:
    """How robust is a classifier? Accuracy against eps, pictures and numbers, on one page.

    `strop attacks evaluate --model resnet20-adversarial --data cifar10 --norm fourier-linf --out
    RUN` attacks a model of the models folder. Before that its inputs, labels, outputs and gradients
    are looked at, and what would make the numbers wrong is said with its remedy. Every success is
    verified. A run that was stopped goes on with --resume; under torchrun many GPUs share the work.
    """

    settings: EvaluateSettings
    out: Path = field(default=Path("robustness"))
    """A folder: the page index.html, the numbers evaluation.json, and a record to resume from."""
    config: Path | None = None
    """The settings file of an earlier run, or its folder."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    resume: bool = False
    """Go on with the run in --out."""
    overwrite: bool = False
    """Start anew in place of the run in --out."""
    pictures: int = 6
    """So many attacked pictures on the page; 0 for none."""

    def __call__(self) -> None:
        sys.path.insert(0, "")  # a factory may lie in the folder the command is run in
        chosen = choose_device(self.device)
        model = load_classifier(self.settings.model, checkpoint=self.settings.checkpoint).to(chosen)
        data = _read(self.settings)
        norm = norm_from_name(
            self.settings.norm,
            band=self.settings.band,
            cutoff=self.settings.cutoff,
            size=tuple(data.batch([0])[0].shape[-2:]),
        )
        with process_group(chosen):
            curve = accuracy_curve(
                model,
                data,
                norm=norm,
                eps=_budgets(self.settings),
                attacks=_suite(self.settings),
                batch_size=self.settings.batch_size,
                precision=self.settings.precision,
                seed=self.settings.seed,
                check=self.settings.check,
                out=self.out / "run",
                resume=self.resume,
                overwrite=self.overwrite,
            )
            if rank() == 0:
                self._write(curve, model, data, norm)

    def _write(
        self, curve: AccuracyCurve, model: nn.Module, data: LabelledImages, norm: Norm
    ) -> None:
        plain = settings_to_dict(self.settings)
        write_json(self.out / "settings.json", describe_run(plain, seed=self.settings.seed))
        curve.save_json(self.out / NUMBERS)
        shown = None
        if self.pictures:
            broken = [eps for eps in curve.eps if curve.accuracy(eps).value < 0.1]
            eps = broken[0] if broken else curve.eps[-1]
            shown = attack_pictures(model, data, norm=norm, eps=eps, count=self.pictures)
        title = f"How robust is {Path(self.settings.model).name}?"
        curve.save_html(self.out / PAGE, title=title, pictures=shown)
        _print(curve)
        print(f"\nthe page: {(self.out / PAGE).resolve()}\nthe numbers: {self.out / NUMBERS}")


def _read(settings: EvaluateSettings) -> LabelledImages:
    data = read_images(settings.data, split=settings.split)
    return subset(data, range(min(settings.count, len(data)))) if settings.count else data


def _suite(settings: EvaluateSettings) -> tuple[Attack, ...]:
    if settings.suite == "standard":
        return standard_suite(steps=settings.steps or 100, queries=settings.queries)
    if settings.suite == "quick":
        return quick_suite(steps=settings.steps or 20)
    raise InputError(f"expected the suite standard or quick, came {settings.suite!r}")


def _budgets(settings: EvaluateSettings) -> list[float]:
    return [parse_eps(text) for text in settings.eps or GRIDS[settings.norm]]


def parse_eps(text: str) -> float:
    """A number, or a fraction of two.

    >>> parse_eps("0.5"), parse_eps("51/255")
    (0.5, 0.2)
    """
    above, *below = text.split("/")
    try:
        value = float(above) / float(*below or (1,))
    except (TypeError, ValueError, ZeroDivisionError):
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"expected eps such as 0.5 or 8/255, came {text!r}")
    return value


def _print(curve: AccuracyCurve) -> None:
    table = Table(box=None, header_style="bold")
    for heading in ("eps", "accuracy", "95 %", "right"):
        table.add_column(heading, justify="right")
    for row in curve.rows():
        eps = row["eps"]
        table.add_row(
            f"{255 * eps:.3g}/255" if eps < 0.5 else f"{eps:.3g}",
            f"{100 * row['accuracy']:.1f} %",
            f"{100 * row['low']:.1f} to {100 * row['high']:.1f}",
            f"{row['right']} of {row['count']}",
        )
    Console().print(table)
    print(f"\n{curve.max_epsilon().headline()}")
    for finding in curve.findings:
        print(f"preflight: {finding}")
