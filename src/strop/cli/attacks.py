"""``strop attacks``: train classifiers that withstand attacks, and find out how much they do."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from strop.attacks.training import MODEL_FILE, measure_robustness, search_of, train_robust
from strop.attacks.training_settings import PRESETS, RobustSettings
from strop.data import read_images, subset
from strop.support import write_json

Device = Literal["auto", "cpu", "cuda", "mps"]


@dataclass(frozen=True)
class Train:
    """Train a classifier on pictures under attack: adversarial training or TRADES, in any norm.

    DATA is a folder in the layout of CIFAR, MNIST or class/picture.png, or a data set known by
    name. A run that was stopped goes on with --resume; --config starts one with the settings of
    another. `strop attacks train cifar10 --preset wide-resnet-28-10 --method trades --out …` is a
    run of the thesis.
    """

    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA")]
    """Labelled pictures."""
    out: Path
    """The folder of the run: settings, records, checkpoints, and model.safetensors."""
    settings: RobustSettings = field(default_factory=RobustSettings)
    preset: Literal["robust-resnet18", "wide-resnet-28-10", "resnet-18", "resnet-20"] = (
        "robust-resnet18"
    )
    """Where the other settings start from; all but the first have the thesis's schedule."""
    config: Path | None = None
    """The settings file of an earlier run, or its folder."""
    device: Device = "auto"
    resume: bool = False
    """Go on with the run in --out."""
    overwrite: bool = False
    """Start anew in place of the run in --out."""
    track: tuple[Literal["tensorboard", "wandb", "mlflow"], ...] = ()
    """Mirror the records there, too (extra `tracking`)."""
    test: int = 1000
    """So many test pictures are attacked in the end (PGD, 20 steps); 0 for none."""

    @classmethod
    def presets(cls) -> dict[str, RobustSettings]:
        return PRESETS

    def __call__(self) -> None:
        train = read_images(self.data, split="train")
        print(train)
        trained = train_robust(
            train,
            settings=self.settings,
            out=self.out,
            device=self.device,
            resume=self.resume,
            overwrite=self.overwrite,
            track=self.track,
        )
        numbers = {"held_out": trained.held_out}
        if self.test:
            test = read_images(self.data, split="test")
            test = subset(test, range(min(self.test, len(test))))
            search = search_of(self.settings, size=test.images.shape[-2:])
            scores = measure_robustness(trained.model, test, search=search, steps=20)
            numbers["test"] = {"count": len(test), **scores}
            print(
                f"right {100 * scores['accuracy']:.1f} %, under PGD at {self.settings.eps:.4g} in "
                f"{self.settings.norm} {100 * scores['robust_accuracy']:.1f} % (an upper bound)"
            )
        write_json(self.out / "robustness.json", numbers)
        print(f"the classifier: {self.out / MODEL_FILE}")
        norm = f"--norm {self.settings.norm}"
        print(f"next: strop attacks evaluate --model {self.out / MODEL_FILE} {norm} …")
