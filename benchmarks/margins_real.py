"""Margins on real data: four classifiers against four attacks, in training and on held-out points.

    python benchmarks/margins_real.py --data FOLDER --out margins_real.json          # resumable
    python benchmarks/margins_real.py --data FOLDER --out margins_real.json --whole

Problems: digits 3 against 8 and 1 against 7 (scikit-learn); MNIST 3 against 8 (``mnist`` in
FOLDER), a separable subset with fewer points than pixels, and the whole with slack; and captions of
emoji, which travel with the package: object or symbol, told by keywords, more words than captions.
The training margin of each classifier against its own attack is the largest of its column, by
theorem (with slack the margin of the slack formulation, one slack for all four); test figures are
as measured, robust ones at half of the best margin.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

from strop.data import load_emoji, read_images
from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins import automatic_slack, signed_data
from strop.margins.certificate import tail_mean
from strop.margins.classifier import MaxMarginClassifier
from strop.support import read_json, write_json

ATTACKS: dict[str, Norm] = {"linf": Linf, "l2": L2, "l1": L1, "fourier-linf": Fourier(Linf, dims=1)}
Problem = tuple[Any, Any, Any, Any]


def digits(first: int, second: int) -> Problem:
    points, labels = load_digits(return_X_y=True)
    keep = (labels == first) | (labels == second)
    return tuple(train_test_split(points[keep] / 16, labels[keep], random_state=0, test_size=0.5))  # type: ignore[return-value]


def mnist(folder: Path, *, count: int | None) -> Problem:
    parts = []
    for part in ("train", "test"):
        images = read_images(folder / "mnist", split=part)
        labels = images.labels.numpy()
        keep = np.flatnonzero((labels == 3) | (labels == 8))
        pixels = np.stack([np.asarray(images[int(at)][0]).reshape(-1) for at in keep])
        parts.append((pixels.astype(np.float64), labels[keep]))
    (points, labels), (test_points, test_labels) = parts
    if count is not None:
        chosen = np.random.default_rng(0).choice(len(points), count, replace=False)
        points, labels = points[chosen], labels[chosen]
    return points, test_points, labels, test_labels


def captions() -> Problem:
    emoji = load_emoji(part="all", drawings=("noto",), captions="keywords")
    texts = np.array(emoji.captions)
    groups = np.array(emoji.fields["group"])[emoji.image_of_caption.numpy()]
    labels = (groups == "Objects").astype(int)
    keep = np.isin(groups, ["Objects", "Symbols"])
    train, test, train_labels, test_labels = train_test_split(
        texts[keep], labels[keep], random_state=0, test_size=0.5
    )
    words = TfidfVectorizer().fit(train)
    return words.transform(train), words.transform(test), train_labels, test_labels


def slack_for(points: Any, labels: Any) -> float | None:
    """What slack="auto" takes, found once: the least hinge loss is the same for every norm."""
    signs = np.where(labels == labels.max(), 1.0, -1.0)
    data = signed_data(points, signs, intercept=True)
    return automatic_slack(data, attack=L2) or None


def measure(name: str, problem: Problem, tol: float) -> list[dict[str, Any]]:
    points, test_points, labels, test_labels = problem
    models, rows = {}, []
    began = time.process_time()
    slack = slack_for(points, labels)
    print(name, f"slack {slack}, found in {time.process_time() - began:.1f} s", flush=True)
    for attack in ATTACKS:
        began = time.process_time()
        models[attack] = MaxMarginClassifier(attack, tol=tol, slack=slack).fit(points, labels)
        models[attack].seconds_ = time.process_time() - began
        print(name, attack, f"{models[attack].seconds_:.1f} s", flush=True)
    budgets = {attack: 0.5 * model.margin_ for attack, model in models.items()}
    for fitted, model in models.items():
        row: dict[str, Any] = {
            "problem": name,
            "size": list(points.shape),
            "classifier": fitted,
            "seconds": model.seconds_,
            "gap": model.gap_,
            "slack": model.slack_,
            "test_accuracy": float(model.score(test_points, test_labels)),
        }
        for attack in ATTACKS:
            judge = MaxMarginClassifier(attack)
            judge.__dict__.update(model.__dict__ | {"attack_norm": attack})
            signed = judge._signed_radii(points, np.searchsorted(judge.classes_, labels))
            # With slack it is the mean of the worst share that is maximised, and compared.
            row[f"margin_{attack}"] = (
                tail_mean(torch.as_tensor(signed), model.slack_)
                if model.slack_
                else float(signed.min())
            )
            row[f"robust_test_{attack}"] = judge.robust_score(
                test_points, test_labels, budgets[attack]
            )
        rows.append(row)
        print({k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--whole", action="store_true", help="MNIST 3 against 8 whole, with slack")
    options = parser.parse_args()
    torch.set_num_threads(1)
    problems: dict[str, Callable[[], Problem]] = {
        "digits 3-8": lambda: digits(3, 8),
        "digits 1-7": lambda: digits(1, 7),
        "emoji keywords": captions,
    }
    if options.data is not None and (options.data / "mnist").exists():
        problems["MNIST 3-8, 600 points"] = lambda: mnist(options.data, count=600)
        if options.whole:
            problems["MNIST 3-8, whole"] = lambda: mnist(options.data, count=None)
    rows = read_json(options.out)["rows"] if options.out.exists() else []
    for name, problem in problems.items():
        if not any(row["problem"] == name for row in rows):
            rows += measure(name, problem(), 1e-3 if "whole" in name else 1e-6)
            write_json(options.out, {"rows": rows})
    _table(rows)


def _table(rows: list[dict[str, Any]]) -> None:
    """Margins over the best of their column, and test accuracies, clean and attacked."""
    for name in dict.fromkeys(row["problem"] for row in rows):
        part = [row for row in rows if row["problem"] == name]
        slack, gap = max(row["slack"] for row in part), max(row["gap"] for row in part)
        print(f"\n{name}, {part[0]['size']}, slack {slack:.3g}, certified within {gap:.0e}")
        for row in part:
            best = {a: max(r[f"margin_{a}"] for r in part) for a in ATTACKS}
            shares = [row[f"margin_{a}"] / best[a] for a in ATTACKS]
            attacked = [100 * row[f"robust_test_{a}"] for a in ATTACKS]
            print(
                f"{row['classifier']:>13} "
                + " ".join(f"{share:7.3f}" for share in shares)
                + f"   {100 * row['test_accuracy']:5.1f}   "
                + " ".join(f"{share:5.1f}" for share in attacked)
                + f"   {row['seconds']:6.1f} s"
            )


if __name__ == "__main__":
    main()
