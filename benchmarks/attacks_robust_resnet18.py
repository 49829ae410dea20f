"""A robust ResNet-18 (linf 8/255, CIFAR-10), trained within a given time on one GPU.

    PYTHONPATH=src python benchmarks/cifar10_mosaics.py .cache/cifar10-mosaics
    PYTHONPATH=src:benchmarks python3 benchmarks/attacks_robust_resnet18.py \
        --data .cache/cifar10-mosaics --seconds 330 --out runs/robust-resnet18

Writes ``robust-resnet18.safetensors`` (half precision, 22 MB, for ``load_classifier``) and
``robust-resnet18.json`` into the folder ``--out``. The settings are those of the preset
``robust-resnet18``; the number of epochs is what fits into ``--seconds`` after the speed of the
first steps was measured. Robust accuracies are of the first 1,000 test pictures: PGD with 20 steps,
APGD on the cross-entropy and targeted on the DLR loss with 100 steps, what withstands all. With
``--part-bytes`` the weights come in parts for ``cat``, where a file may not be larger.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from cifar10_mosaics import unpack
from torch import Tensor, nn

from strop.attacks import apgd, pgd
from strop.attacks.training import RobustTraining, train_robust
from strop.attacks.training_settings import PRESETS, RobustSettings
from strop.data import LabelledImages, subset
from strop.geometry import Linf
from strop.models import save_classifier
from strop.support import settings_to_dict, write_json

NAME = "robust-resnet18"


def seconds_per_epoch(data: LabelledImages, settings: RobustSettings, device: str) -> float:
    """Of a short training, its first half (where kernels are chosen and compiled) not counted."""
    few = 40 * settings.batch_size
    short = replace(settings, epochs=2, warmup_epochs=1, held_out=0)
    history = train_robust(
        subset(data, range(min(few, len(data)))), settings=short, device=device, progress="quiet"
    ).history
    ends = [record["seconds"] for record in history.records if record["event"] == "epoch"]
    steps = history.steps // 2
    return (ends[1] - ends[0]) / steps * (len(data) // settings.batch_size)


def measure(model: nn.Module, data: LabelledImages, count: int, steps: int) -> dict[str, Any]:
    """Clean and robust accuracies in per cent, at 8/255."""
    device = next(model.parameters()).device
    attacks: dict[str, Callable[[Tensor, Tensor], Any]] = {
        "pgd-20": lambda x, y: pgd(model, x, y, norm=Linf, eps=8 / 255, steps=20),
        f"apgd-ce-{steps}": lambda x, y: apgd(model, x, y, norm=Linf, eps=8 / 255, steps=steps),
        f"apgd-targeted-dlr-{steps}": lambda x, y: apgd(
            model, x, y, norm=Linf, eps=8 / 255, loss="targeted-dlr", steps=steps
        ),
    }
    right = 0
    for indices in torch.arange(len(data)).split(500):
        x, y = data.batch(indices)
        with torch.no_grad():
            right += int((model(x.to(device)).argmax(dim=1).cpu() == y).sum())
    x, y = (part.to(device) for part in data.batch(range(min(count, len(data)))))
    standing = torch.ones_like(y, dtype=torch.bool)
    robust = {}
    for name, attack in attacks.items():
        success = attack(x, y).success
        robust[name] = 100 * float((~success).double().mean())
        standing &= ~success
        print(name, f"{robust[name]:.1f}", flush=True)
    return {
        "clean": 100 * right / len(data),
        "clean_count": len(data),
        "robust": robust,
        "robust_all": 100 * float(standing.double().mean()),
        "robust_count": len(y),
    }


def write(result: RobustTraining, report: dict[str, Any], out: Path, part_bytes: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / f"{NAME}.json", report)
    file = out / f"{NAME}.safetensors"
    texts = {
        "training": "adversarial linf 8/255",
        "clean_accuracy": f"{report['clean']:.2f} % of {report['clean_count']} test pictures",
        "robust_accuracy": f"{report['robust_all']:.2f} % of {report['robust_count']} at 8/255",
    }
    save_classifier(file, result.model.half().to("cpu"), metadata=texts)
    if part_bytes:
        content = file.read_bytes()
        file.unlink()
        for part, start in enumerate(range(0, len(content), part_bytes)):
            Path(f"{file}.part{part}").write_bytes(content[start : start + part_bytes])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="what cifar10_mosaics.py wrote")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=330, help="for the training alone")
    parser.add_argument("--inner-steps", type=int, default=PRESETS[NAME].inner_steps)
    parser.add_argument("--epochs", type=int, help="instead of what fits into --seconds")
    parser.add_argument("--examples", type=int, help="of the training set; all without it")
    parser.add_argument("--count", type=int, default=1000, help="test pictures that are attacked")
    parser.add_argument("--attack-steps", type=int, default=100)
    parser.add_argument("--network", default=PRESETS[NAME].network)
    parser.add_argument("--precision", default=PRESETS[NAME].precision)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--part-bytes", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    began = time.monotonic()
    train = unpack(options.data, split="train")
    if options.examples:
        train = subset(train, range(options.examples))
    settings = replace(
        PRESETS[NAME],
        inner_steps=options.inner_steps,
        network=options.network,
        precision=options.precision,
        compile=options.compile,
    )
    torch.backends.cudnn.benchmark = True
    epoch = None
    if options.epochs is None:
        epoch = seconds_per_epoch(train, settings, options.device)
        # The validation after every epoch, and slower steps than those measured: a tenth.
        epochs = max(8, int(options.seconds / (1.1 * epoch)))
        print(f"{epoch:.2f} s for an epoch: {epochs} epochs", flush=True)
    else:
        epochs = options.epochs
    settings = replace(settings, epochs=epochs, warmup_epochs=0.15 * epochs)
    result = train_robust(train, settings=settings, device=options.device, progress="lines")
    trained = time.monotonic()
    print(f"trained after {trained - began:.0f} s: {result.held_out}", flush=True)
    report = measure(
        result.model, unpack(options.data, split="test"), options.count, options.attack_steps
    )
    report |= {
        "settings": settings_to_dict(settings),
        "held_out": result.held_out,
        "seconds_per_epoch": epoch,
        "seconds_training": result.history.seconds,
        "seconds_total": time.monotonic() - began,
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "CPU",
        "torch": torch.__version__,
        "validations": [r for r in result.history.records if r["event"] == "validation"],
    }
    write(result, report, options.out, options.part_bytes)
    print({name: report[name] for name in ("clean", "robust", "robust_all", "seconds_total")})


if __name__ == "__main__":
    main()
