"""Figures 5.1 and 5.5 on the classifiers at hand, and the claims M9 and M10 with intervals.

    PYTHONPATH=src:benchmarks python benchmarks/attacks_figures.py --out FOLDER --device cuda

Needs ``cifar-10-batches-bin/test_batch.bin`` (the first pictures are enough: 3,073 bytes each) and
``models/*.safetensors`` in ``--data`` or in STROP_DATA. One record for each classifier is written
to ``--out`` as soon as it is done, and not computed again; ``--draw`` only reads them.

- figure 5.5: the largest Fourier-linf eps that costs at most 1 % of the examples, by the attacks of
  the thesis (APGD on two losses) and the minimum-norm attack;
- M10: the accuracy at Fourier-linf 20/255 (holds where the interval lies under 2 %, fails where it
  lies above);
- M9: how often the smallest perturbation of the high band is smaller than that of the low band, for
  the same picture; both bands of about half of the frequencies (cutoff 11/32), so that neither has
  the larger budget for having more of them. Holds where the interval of the share lies above one
  half. Two classifiers are also measured at other cutoffs;
- figure 5.1: pictures, and the accuracy at the thesis's budgets.
"""

import argparse
import math
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from strop.attacks import max_epsilon, minimum_norm, quick_suite, robust_accuracy
from strop.attacks.intervals import Accuracy, binomial_interval
from strop.attacks.pictures import attack_pictures
from strop.data import LabelledImages, find_data, read_images, subset
from strop.geometry import Fourier, Linf, Norm, high_band, low_band
from strop.models import load_classifier
from strop.support import read_json, write_json

FULL = Fourier(Linf, dims=2)
HALVES = 11 / 32
CUTOFFS = {"resnet20-standard": (4 / 32, 8 / 32), "resnet20-adversarial": (4 / 32, 8 / 32)}
ALMOST_NONE = 0.02
BUDGETS = {"linf": 8, "any": 8, "high": 8, "low": 50}  # in 255ths, figure 5.1
OPTIONS: dict[str, Any] = {"check": "off", "progress": "quiet"}


def band(kind: str, cutoff: float) -> Norm:
    mask = low_band((32, 32), cutoff) if kind == "low" else high_band((32, 32), cutoff)
    return Fourier(Linf, dims=2, band=mask)


def compute(name: str, data: LabelledImages, arguments: argparse.Namespace) -> dict[str, Any]:
    model = load_classifier(name).to(arguments.device)
    began = time.perf_counter()
    suite = quick_suite(steps=arguments.steps)
    options = OPTIONS | {"batch_size": arguments.batch_size}
    most = max_epsilon(model, data, norm=FULL, attacks=suite, **options)
    at_20 = robust_accuracy(model, data, norm=FULL, eps=20 / 255, attacks=suite, **options)
    low, high = most.interval
    x, y = (tensor.to(arguments.device) for tensor in data.batch(range(len(data))))
    pairs = {}
    for cutoff in (HALVES, *CUTOFFS.get(name, ())):
        sizes = {}
        for kind in ("low", "high"):
            norm = band(kind, cutoff)
            parts = [
                minimum_norm(model, x[rows], y[rows], norm=norm, steps=2 * arguments.steps).norm
                for rows in torch.arange(len(x)).split(arguments.batch_size)
            ]
            sizes[kind] = torch.cat(parts).double().cpu()
        pairs[f"{cutoff:.5f}"] = compare(sizes["low"], sizes["high"])
    return {
        "model": name,
        "training": model.metadata.get("training", ""),
        "count": len(data),
        "steps": arguments.steps,
        "clean": most.clean.to_dict(),
        "max_epsilon": {"value": most.value, "low": low, "high": high},
        "accuracy_8": most.accuracy(8 / 255).to_dict(),
        "accuracy_20": at_20.robust.to_dict(),
        "bands": pairs,
        "seconds": time.perf_counter() - began,
    }


def compare(low: Tensor, high: Tensor) -> dict[str, Any]:
    """Smallest perturbations of the same pictures in two bands; the wrong ones are left out."""
    right = low > 0
    low, high = low[right], high[right]
    smaller = int((high < low).sum())
    ends = binomial_interval(smaller, len(low))
    ratio = _ratio(low, high)
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack(
        [
            _ratio(low[index], high[index])
            for index in (
                torch.randint(len(low), (len(low),), generator=generator) for _ in range(1000)
            )
        ]
    )
    spread = draws.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64))
    accuracies = {
        f"{kind}_{eps}": Accuracy(int((sizes > eps / 255).sum()), len(sizes)).to_dict()
        for kind, sizes in (("low", low), ("high", high))
        for eps in (1, 2, 4, 8, 16, 50)
    }
    return {
        "pictures": len(low),
        "high_is_smaller": smaller / len(low),
        "interval": list(ends),
        "median_ratio": _finite(ratio),
        "ratio_interval": [_finite(end) for end in spread],
        "median_low": _finite(low.median()),
        "median_high": _finite(high.median()),
        "accuracies_of_right": accuracies,
    }


def _ratio(low: Tensor, high: Tensor) -> Tensor:
    """How many times larger the median perturbation of the low band is."""
    return low.median() / high.median()


def _finite(value: Tensor) -> float | None:
    return float(value) if math.isfinite(float(value)) else None


def pictures(data: LabelledImages, arguments: argparse.Namespace) -> None:
    """Figure 5.1: a standard model under l∞, and Fourier-l∞ over any, high and low frequencies."""
    for name in ("resnet20-standard", "resnet20-adversarial"):
        if name not in arguments.models:
            continue
        model = load_classifier(name).to(arguments.device)
        for kind, eps in BUDGETS.items():
            norm = {"linf": Linf, "any": FULL}.get(kind) or band(kind, 8 / 32)
            shown = attack_pictures(model, data, norm=norm, eps=eps / 255, steps=arguments.steps)
            shown.save_png(arguments.out / f"figure-5.1-{name}-{kind}.png")


def verdict(low: float, high: float, limit: float) -> str:
    """Whether a share lies above a limit."""
    return "holds" if low > limit else "fails" if high < limit else "undecided"


def draw(records: list[dict[str, Any]], out: Path) -> None:
    print("| model | clean | maximal eps, 1/255 | at 8/255 | at 20/255 | M10 |")
    print("|---|---|---|---|---|---|")
    for r in records:
        most, at_20 = r["max_epsilon"], r["accuracy_20"]
        m10 = verdict(-at_20["high"], -at_20["low"], -ALMOST_NONE)
        print(
            f"| {r['model']} | {100 * r['clean']['accuracy']:.1f} | {_ends(most, 255)} | "
            f"{_share(r['accuracy_8'])} | {_share(at_20)} | {m10} |"
        )
    print("\n| model | cutoff | high is smaller, % | low / high, medians | medians, 1/255 | M9 |")
    print("|---|---|---|---|---|---|")
    for r in records:
        for cutoff, pair in r["bands"].items():
            ends, ratio = pair["interval"], pair["ratio_interval"]
            print(
                f"| {r['model']} | {32 * float(cutoff):.0f}/32 | "
                f"{100 * pair['high_is_smaller']:.1f} [{100 * ends[0]:.1f}, {100 * ends[1]:.1f}] | "
                f"{_number(pair['median_ratio'])} [{_number(ratio[0])}, {_number(ratio[1])}] | "
                f"{_number(pair['median_low'], 255)}, {_number(pair['median_high'], 255)} | "
                f"{verdict(ends[0], ends[1], 0.5)} |"
            )
    print(f"\n{sum(r['seconds'] for r in records):.0f} s, {records[0]['count']} pictures")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    figure = Figure(figsize=(7, 0.45 * len(records) + 1.2), layout="constrained")
    axes = figure.add_subplot()
    for place, r in enumerate(records):
        most = r["max_epsilon"]
        middle = 255 * most["value"]
        sides = [[middle - 255 * most["low"]], [255 * most["high"] - middle]]
        robust = "adv" in r["model"] or "mix" in r["model"]
        colour = "tab:red" if robust else "tab:blue"
        axes.errorbar([middle], [place], xerr=sides, fmt="o", color=colour, capsize=3)
    axes.set_yticks(range(len(records)), [r["model"] for r in records])
    axes.invert_yaxis()
    axes.set_xlabel("maximal Fourier-l∞ eps, in 255ths (red: adversarially trained)")
    figure.savefig(out / "figure-5.5.png", dpi=150)


def _ends(most: dict[str, float], scale: float) -> str:
    value, low, high = (scale * most[key] for key in ("value", "low", "high"))
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _share(row: dict[str, float]) -> str:
    return f"{100 * row['accuracy']:.1f} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"


def _number(value: float | None, scale: float = 1) -> str:
    return "∞" if value is None else f"{scale * value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="the folder with the data and the models")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=25, help="of APGD; minimum-norm: twice")
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--models", nargs="*", help="by name; all of the folder without it")
    parser.add_argument("--draw", action="store_true", help="only read what was computed")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.data is not None:
        os.environ["STROP_DATA"] = str(arguments.data)
    found = sorted(file.stem for file in find_data("models").glob("*.safetensors"))
    arguments.models = arguments.models or found
    data = read_images("cifar10", split="test")
    data = subset(data, range(min(arguments.count, len(data))))
    for name in arguments.models:
        record = arguments.out / f"{name}.json"
        if not record.exists() and not arguments.draw:
            write_json(record, compute(name, data, arguments))
            print(f"{name}: {read_json(record)['seconds']:.1f} s", flush=True)
    if not arguments.draw:
        pictures(data, arguments)
    records = [
        read_json(arguments.out / f"{name}.json")
        for name in arguments.models
        if (arguments.out / f"{name}.json").exists()
    ]
    draw(records, arguments.out)


if __name__ == "__main__":
    main()
