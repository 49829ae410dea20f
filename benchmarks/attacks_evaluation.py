"""What an evaluation costs and finds: each attack of the suite, in float32 and searching in bf16.

    PYTHONPATH=src:benchmarks python benchmarks/attacks_evaluation.py --device cuda --out FILE.json

Needs the data and the models of ``attacks_figures.py``. For each classifier, norm and precision:
clean and robust accuracy over the whole suite, what each attack broke and its seconds; and what the
square attack breaks alone, without the others before it, beside that of torchattacks where it is
installed (``--only-square`` for this alone).
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch

from strop.attacks import Accuracy, RobustAccuracy, robust_accuracy, standard_suite
from strop.data import read_images, subset
from strop.geometry import L2, Fourier, Linf, Norm
from strop.models import load_classifier
from strop.support import write_json

NORMS: dict[str, tuple[Norm, float]] = {
    "linf": (Linf, 8 / 255),
    "l2": (L2, 0.5),
    "fourier-linf": (Fourier(Linf, dims=2), 4 / 255),
}


def row(result: RobustAccuracy, seconds: float, **labels: Any) -> dict[str, Any]:
    return {
        **labels,
        "clean": result.clean.to_dict(),
        "robust": result.robust.to_dict(),
        "attacks": [vars(report) for report in result.attacks],
        "seconds": seconds,
    }


def peer(model: Any, data: Any, kind: str, arguments: argparse.Namespace) -> dict[str, Any] | None:
    """The square attack of torchattacks at as many queries, on all pictures in one batch."""
    names = {"linf": "Linf", "l2": "L2"}
    try:
        import torchattacks  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    if kind not in names:
        return None
    x, y = (tensor.to(arguments.device) for tensor in data.batch(range(len(data))))
    began = time.perf_counter()
    attack = torchattacks.Square(
        model, norm=names[kind], eps=NORMS[kind][1], n_queries=arguments.queries, seed=0
    )
    found = attack(x, y)
    seconds = time.perf_counter() - began
    with torch.no_grad():
        left = Accuracy(int((model(found).argmax(dim=1) == y).sum()), len(y))
    return {"robust": left.to_dict(), "seconds": seconds, "peer": "torchattacks.Square"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="the folder with the data and the models")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--only-square", action="store_true")
    parser.add_argument("--norms", nargs="*", choices=list(NORMS), default=list(NORMS))
    parser.add_argument(
        "--models", nargs="*", default=["resnet20-adversarial", "resnet38-adversarial"]
    )
    arguments = parser.parse_args()
    if arguments.data is not None:
        os.environ["STROP_DATA"] = str(arguments.data)
    data = subset(read_images("cifar10", split="test"), range(arguments.count))
    suite = standard_suite(steps=arguments.steps, queries=arguments.queries)
    rows = []
    for name in arguments.models:
        model = load_classifier(name).to(arguments.device)
        for kind in arguments.norms:
            norm, eps = NORMS[kind]
            plans: list[tuple[Any, Any]] = [("fp32", suite), ("bf16", suite), ("fp32", suite[-1:])]
            for precision, attacks in plans[-1:] if arguments.only_square else plans:
                began = time.perf_counter()
                result = robust_accuracy(
                    model, data, norm=norm, eps=eps, attacks=attacks, precision=precision,
                    batch_size=arguments.batch_size, progress="quiet",
                )  # fmt: skip
                seconds = time.perf_counter() - began
                alone = len(attacks) == 1
                rows.append(
                    row(result, seconds, model=name, norm=kind, precision=precision, alone=alone)
                )
                words = "square alone" if alone else precision
                broken = ", ".join(f"{r.name} {r.broken}/{r.attacked}" for r in result.attacks)
                print(f"{name} {kind} {words}: {result.robust} in {seconds:.1f} s ({broken})")
            other = peer(model, data, kind, arguments)
            if other is not None:
                rows.append(other | {"model": name, "norm": kind})
                share, seconds = other["robust"]["accuracy"], other["seconds"]
                print(f"{name} {kind} {other['peer']}: {100 * share:.1f} % in {seconds:.1f} s")
            write_json(arguments.out, rows)


if __name__ == "__main__":
    main()
