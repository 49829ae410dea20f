"""How much of its accuracy a classifier keeps: our attacks beside the peers', at equal gradients.

    PYTHONPATH=src:benchmarks python3 benchmarks/attacks_strength.py --device cuda \
        --models MODELS --data .cache/cifar10-mosaics --out strength.json

MODELS is a folder of classifiers for ``load_classifier``; the data are test pictures packed by
``cifar10_mosaics.py``, or ``cifar10``. First linf and l2: one run of so many gradients of APGD on
the cross-entropy and one on the DLR loss, by each package; what a peer returns is brought back into
the box and its ball before it counts. Then Fourier-linf: the standard suite, and for what it leaves
the smallest perturbations found.
"""

import argparse
import math
import time
from pathlib import Path
from typing import Any

import torch
from attack_peers import Counted, peers
from cifar10_mosaics import unpack
from side_by_side import write
from torch import Tensor, nn

from strop.attacks import apgd, quick_suite, robust_accuracy, standard_suite
from strop.data import LabelledImages, read_images
from strop.geometry import L2, Fourier, Linf, Norm
from strop.models import load_classifier

PLAIN: list[tuple[str, str, Norm, float]] = [
    *((name, "linf", Linf, 1 / 255) for name in ("resnet20-standard-raw", "resnet56-standard")),
    *((name, "l2", L2, 0.1) for name in ("resnet20-standard-raw", "resnet56-standard")),
    *((name, "linf", Linf, 8 / 255) for name in ("resnet20-adversarial", "resnet38-adversarial")),
    *((name, "l2", L2, 0.5) for name in ("resnet20-adversarial", "resnet38-adversarial")),
    ("cnn-a-adv4", "linf", Linf, 8 / 255),
    ("cnn-a-adv4", "l2", L2, 0.5),
]
FOURIER = [("resnet20-standard-raw", 1 / 255), ("resnet20-adversarial", 8 / 255)]


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return 100 * float((model(x).argmax(dim=1) == y).double().mean())


def inside(moved: Tensor, x: Tensor, norm: Norm, eps: float) -> Tensor:
    return (x + norm.project(moved.clamp(0, 1) - x, eps)).clamp(0, 1)


def plain(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    norm: Norm,
    eps: float,
    calls: int,
    losses: list[str],
) -> dict[str, Any]:
    p = {Linf: math.inf, L2: 2}[norm]  # type: ignore[index]
    rows: dict[str, Any] = {}
    for loss in losses:
        counted = Counted(model).eval()
        began = time.monotonic()
        result = apgd(counted, x, y, norm=norm, eps=eps, steps=calls, loss=loss)  # type: ignore[arg-type]
        rows[f"strop APGD {loss}"] = {
            "robust": 100 * float((~result.success).double().mean()),
            "calls": counted.calls,
            "seconds": time.monotonic() - began,
        }
        for name, peer in peers().items():
            if name.startswith("foolbox") and loss == "dlr":
                continue
            torch.manual_seed(0)
            counted, began = Counted(model).eval(), time.monotonic()
            moved = inside(peer(counted, x, y, p, eps, calls, loss).detach(), x, norm, eps)
            rows[f"{name} {loss}"] = {
                "robust": accuracy(model, moved, y),
                "calls": counted.calls,
                "seconds": time.monotonic() - began,
            }
    return rows


def fourier(
    model: nn.Module, x: Tensor, y: Tensor, eps: float, calls: int, out: Path | None
) -> dict[str, Any]:
    """The standard suite but for the square attack, after one of few steps that leaves it less."""
    result = robust_accuracy(
        model,
        (x, y),
        norm=Fourier(Linf, dims=2),
        eps=eps,
        attacks=(quick_suite(steps=20)[0], *standard_suite(steps=calls, queries=0)),
        batch_size=100 if x.device.type == "cpu" else 1000,
        out=out,
        resume=out is not None and out.exists(),
        progress="quiet",
    )
    standing = result.distances > eps * (1 + 1e-6)
    rows: dict[str, Any] = {"robust": 100 * float(result)}
    for report in result.attacks:
        rows[report.name] = {"attacked": report.attacked, "broken": report.broken}
        print(f"  {report.name}: breaks {report.broken} of {report.attacked}", flush=True)
    rows["left"] = {
        int(row): float(result.distances[row]) / eps for row in standing.nonzero().flatten()
    }
    left = ", ".join(f"{size:.2f}" for size in sorted(rows["left"].values()))
    print(f"  robust {rows['robust']:.1f} %; of what is left the smallest found, in eps: {left}")
    return rows


def pictures(data: str, count: int) -> LabelledImages:
    if (Path(data) / "test-labels.bin").exists():
        return unpack(Path(data), split="test")
    return read_images(data, split="test")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--part", choices=["plain", "fourier", "all"], default="all")
    parser.add_argument("--losses", nargs="+", choices=["ce", "dlr"], default=["ce", "dlr"])
    parser.add_argument("--only", nargs="*", help="models; all without it")
    parser.add_argument("--runs", type=Path, help="folder that a Fourier part is resumed from")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    x, y = pictures(options.data, options.count).batch(range(options.count))
    x, y = x.to(options.device), y.to(options.device)
    report: dict[str, Any] = {"count": options.count, "calls": options.calls, "rows": []}
    for name, kind, norm, eps in PLAIN if options.part != "fourier" else []:
        if options.only and name not in options.only:
            continue
        model = load_classifier(options.models / f"{name}.safetensors").to(options.device)
        rows = plain(model, x, y, norm, eps, options.calls, options.losses)
        ours = min(row["robust"] for key, row in rows.items() if key.startswith("strop"))
        theirs = min(row["robust"] for key, row in rows.items() if not key.startswith("strop"))
        clean = accuracy(model, x, y)
        report["rows"].append(
            {"model": name, "norm": kind, "eps": eps, "clean": clean, "attacks": rows}
        )
        print(f"{name} {kind} {eps:.4g}: strop {ours:.1f} %, lowest peer {theirs:.1f} %")
        for key, row in rows.items():
            print(f"  {key:24s} {row['robust']:5.1f} % {row['calls']} calls {row['seconds']:.1f} s")
        write(options.out, report)
    for name, eps in FOURIER if options.part != "plain" else []:
        if options.only and name not in options.only:
            continue
        model = load_classifier(options.models / f"{name}.safetensors").to(options.device)
        print(f"{name} fourier-linf {eps:.4g}: clean {accuracy(model, x, y):.1f} %", flush=True)
        out = options.runs / name if options.runs else None
        rows = fourier(model, x, y, eps, options.calls, out)
        report["rows"].append({"model": name, "norm": "fourier-linf", "eps": eps, "attacks": rows})
        write(options.out, report)


if __name__ == "__main__":
    main()
