"""Wrong labels and duplicates planted in MNIST and CIFAR-10, and found; beside cleanlab.

    python benchmarks/gradients_mislabels.py [--device cuda] [--examples 10000] [--out …]

Wrong labels: 5 % of the labels are flipped to another class, evenly. Five networks are trained,
each without one fold; and one network on everything. Average precision of the rankings:

- cleanlab on the out-of-fold predictions, as its documentation has it, by each of its scores;
- cleanlab on the mean of the five networks' predictions (log-probabilities), in-fold ones included;
- strop's score_labels on the views of the same five networks;
- the same of the one network that has seen every label.

Duplicates: 1 % of the pictures once more, in random order; precision and recall of the pairs that
find_duplicates puts together, with the one network, which has seen them.

Networks: MNIST mlp 784-256-256-10; CIFAR-10 a small CNN, or with --resnet a ResNet-8 (batch norm).
"""

import json
import sys
import time
from typing import Any

import torch
from side_by_side import mean_and_interval, options_of, run_jobs, write

from strop.data import corrupt_labels, duplicate, read_images, sample, subset
from strop.gradients import find_duplicates, gradient_evidence, score_labels
from strop.gradients.folds import picture_loss, train_small, views_by_folds
from strop.models import cifar_resnet, mlp

DATA = {"mnist": "mnist", "cifar10": "cifar-10-batches-bin"}
CLEANLAB = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")


def average_precision(wrong: torch.Tensor, ranking: torch.Tensor) -> float:
    """The mean, over the wrong ones, of the precision at their rank."""
    hits = wrong[ranking].double()
    precision = hits.cumsum(0) / torch.arange(1, len(hits) + 1)
    return float((precision * hits).sum() / hits.sum())


def cleanlab_scores(labels: torch.Tensor, probabilities: torch.Tensor) -> dict[str, torch.Tensor]:
    """Each of cleanlab's scores of label quality, by name; none where it is not installed."""
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError as error:
        print(f"without cleanlab: {error}", file=sys.stderr)
        return {}
    return {
        method: torch.from_numpy(
            get_label_quality_scores(
                labels.numpy(), probabilities.double().numpy(), method=method
            ).copy()
        )
        for method in CLEANLAB
    }


def training(job: dict[str, Any]) -> dict[str, Any]:
    """How the networks are trained."""
    if job["data"] == "mnist":
        return {
            "build": lambda g: mlp((784, 256, 256, 10), generator=g),
            "epochs": job["epochs"] or 8,
            "peak": 0.1,
        }
    if job["resnet"]:
        return {
            "build": lambda g: cifar_resnet(8, generator=g),
            "epochs": job["epochs"] or 30,
            "peak": 0.1,
        }
    return {"epochs": job["epochs"] or 10}


def mislabels(job: dict[str, Any], *, device: torch.device) -> dict[str, float]:
    generator = torch.Generator().manual_seed(job["seed"])
    data = sample(read_images(DATA[job["data"]]), count=job["examples"], generator=generator)
    data = corrupt_labels(data, share=0.05, generator=generator)
    wrong, labels = data.corrupted, data.labels
    how = training(job)

    def fit(indices: torch.Tensor | None = None) -> Any:
        return train_small(data, indices=indices, generator=generator, device=device, **how)

    views, fold = views_by_folds(fit, picture_loss, data, generator=generator)
    every = torch.stack([view.logits for view in views]).log_softmax(2)
    held_out = every[fold, torch.arange(len(data))]
    found = {"accuracy": 100 * float((held_out.argmax(1) == data.true_labels).double().mean())}
    predictions = {"out of fold": held_out.exp(), "mean of five": every.mean(0).softmax(1)}
    evidence = gradient_evidence(
        fit(), picture_loss, data, generator=generator, sketch_size=1, batch_size=256
    )
    predictions["one network"] = evidence.view.logits.softmax(1)
    for which, probabilities in predictions.items():
        for method, quality in cleanlab_scores(labels, probabilities).items():
            ranking = quality.argsort(stable=True)
            found[f"cleanlab {method}, {which}"] = average_precision(wrong, ranking)
    began = time.process_time()
    scores = score_labels(views, labels)
    found["seconds"] = time.process_time() - began
    found["strop, five networks"] = average_precision(wrong, scores.ranking)
    suspects = scores.suspects()
    found["suspects"] = len(suspects)
    found["suspects precision"] = float(wrong[suspects].double().mean()) if len(suspects) else 1.0
    found["suggestion right"] = float((scores.suggested == data.true_labels)[wrong].double().mean())
    alone = score_labels([evidence.view], labels)
    found["strop, one network"] = average_precision(wrong, alone.ranking)
    return found


def duplicates(job: dict[str, Any], *, device: torch.device) -> dict[str, float]:
    generator = torch.Generator().manual_seed(job["seed"])
    data = sample(read_images(DATA[job["data"]]), count=job["examples"], generator=generator)
    chosen = torch.randperm(len(data), generator=generator)[: len(data) // 100]
    planted = {int(data.origin[row]) for row in chosen}
    data = duplicate(data, chosen, copies=1)
    data = subset(data, torch.randperm(len(data), generator=generator))
    model = train_small(data, generator=generator, device=device, **training(job))
    began = time.process_time()
    evidence = gradient_evidence(model, picture_loss, data, generator=generator, batch_size=256)
    passed = time.process_time() - began
    found = find_duplicates(model, picture_loss, data, evidence=evidence)
    pairs = [{int(data.origin[row]) for row in group} for group in found.groups]
    right = [pair for pair in pairs if len(pair) == 1 and pair <= planted]
    return {
        "precision": len(right) / max(len(pairs), 1),
        "recall": len(right) / len(planted),
        "groups": len(pairs),
        "conflicts": len(found.conflicts),
        "pass seconds": passed,
        "search seconds": time.process_time() - began - passed,
    }


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    device = torch.device(job["device"])
    if device.type == "cpu":
        torch.set_num_threads(1)
    return {
        "job": job,
        "mislabels": mislabels(job, device=device),
        "duplicates": duplicates(job, device=device),
    }


def main() -> None:
    parser = options_of(__doc__, runs=tuple(DATA))
    parser.set_defaults(seeds=3)
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, help="of each training; the network's own without it")
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--resnet", action="store_true", help="CIFAR-10 with a ResNet-8")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    if options.job is not None:
        print(json.dumps(run_job(options.job)))
        return
    jobs = [
        {
            "data": data,
            "seed": options.first_seed + seed,
            "examples": options.examples,
            "epochs": options.epochs,
            "resnet": options.resnet,
            "device": options.device,
        }
        for data in options.runs
        for seed in range(options.seeds)
    ]
    results = run_jobs(__file__, jobs, at_once=options.at_once)
    write(options.out, results)
    for data in options.runs:
        ours = [result for result in results if result["job"]["data"] == data]
        print(f"\n{data}, {options.examples} examples, {len(ours)} seeds")
        for part in ("mislabels", "duplicates"):
            for name in ours[0][part]:
                mean, half = mean_and_interval(result[part][name] for result in ours)
                print(f"  {name:<58} {mean:8.4f} ± {half:.4f}")


if __name__ == "__main__":
    main()
