"""How quiet a gradient is: exact variance of six estimators along real trajectories.

Claims, K = B = 128, at five snapshots of each trajectory and three seeds:
- right after clustering, the variance of the sketch engine (cap 2) is at most 0.6 of the thesis
  engine's in geometric mean, and never above 0.85 of it;
- at any later step until the next refresh it is at most cap times that of plain mini-batches
  (SG-B), and with cap 1 at most 1.05 times.

Nothing is estimated by draws. With per-example squared norms q_i and the sums S_k of the gradients
of each cluster, both exact, one draw from each cluster has the variance

    N^-2 sum_k (N_k sum_{i in k} q_i - ||S_k||^2),

and SG-B, SG-2B, SVRG (norms of ``g_i(w) - g_i(w')``) and sampling by norm have theirs in closed
form, all drawn with replacement. Everything is relative to SG-B at the same parameters.

The MLP of thesis appendix A.3 on MNIST and its ResNet8 without normalisation on CIFAR-10, all
training images, no augmentation, learning rates, their drops and momentum as there. Snapshots are
files, every finished job is a file, and a second call goes on where the first ended:

    python benchmarks/gradients_variance.py mnist cifar10 --out variance --device cuda --at-once 8
    python benchmarks/gradients_variance.py mnist --out small --examples 2000 --steps 200 1000
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from side_by_side import run_jobs
from torch import Tensor, nn

from strop.data import read_images
from strop.gradients import Rank1, Sketch, cluster_gradients, per_example_gradients
from strop.gradients.per_example import add
from strop.models import cifar_resnet, mlp
from strop.support import write_json
from strop.training.checkpoints import load_checkpoint, save_checkpoint

CASES: dict[str, dict[str, Any]] = {
    "mnist": {
        "rate": 0.02,
        "drops": (),
        "momentum": 0.5,
        "iterations": 10,
        "steps": (200, 1000, 2000, 5000, 10000),
    },
    "cifar10": {
        "rate": 0.01,
        "drops": (40_000, 60_000),
        "momentum": 0.9,
        "iterations": 3,
        "steps": (500, 2000, 5000, 10000, 20000),
    },
}
LAGS = (10, 100, 500, 2000)
CHUNK = 512


def losses(model: nn.Module, batch: Any) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


class Run:
    """The data of one case on the device, and a model in training."""

    def __init__(self, options: dict[str, Any]) -> None:
        torch.backends.cudnn.allow_tf32 = False
        self.options, self.case = options, CASES[options["case"]]
        self.generator = torch.Generator().manual_seed(options["seed"])
        images, labels = _tensors(options["case"], options["examples"])
        self.data = [images.to(options["device"]), labels.to(options["device"])]
        made = torch.Generator().manual_seed(options["seed"])
        name = options["case"]
        model = mlp(generator=made) if name == "mnist" else cifar_resnet(
            8, normalisation="none", generator=made
        )  # fmt: skip
        self.model = model.to(options["device"])
        self.step = 0
        self.optimizer = torch.optim.SGD(
            self.model.parameters(),
            lr=self.case["rate"],
            momentum=self.case["momentum"],
            weight_decay=5e-4,
        )

    def train(self, steps: int) -> None:
        for _ in range(steps):
            fallen = sum(drop <= self.step for drop in self.case["drops"])
            self.optimizer.param_groups[0]["lr"] = self.case["rate"] * 0.1**fallen
            self.step += 1
            rows = torch.randint(len(self.data[0]), (128,), generator=self.generator)
            rows = rows.to(self.data[0].device)
            loss = losses(self.model, [tensor[rows] for tensor in self.data]).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def save(self, path: Path) -> None:
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        save_checkpoint(path, {**state, "generator": self.generator.get_state()})

    def load(self, path: Path, *, step: int) -> None:
        self.step, state = step, load_checkpoint(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


def _tensors(case: str, examples: int | None) -> tuple[Tensor, Tensor]:
    data = read_images(case)
    chosen = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:examples]
    images, labels = data.batch(chosen)
    mean, spread = images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True)
    return (images - mean) / spread, labels


def rows_of(data: list[Tensor], indices: Tensor | None = None) -> Iterator[tuple[Tensor, Any]]:
    device = data[0].device
    chosen = torch.arange(len(data[0])) if indices is None else indices.cpu()
    for part in chosen.split(CHUNK):
        yield part, [tensor[part.to(device)] for tensor in data]


def squared_norms(
    model: nn.Module, data: list[Tensor], other: nn.Module | None = None
) -> tuple[Tensor, Tensor]:
    """``||g_i||^2``, and ``||g_i(model) - g_i(other)||^2`` (zeros without another)."""
    norms, apart = [], []
    for _, batch in rows_of(data):
        parts = per_example_gradients(model, losses, batch, check=False)
        norms.append(_summed_norms(parts.values()))
        if other is not None:
            away = per_example_gradients(other, lambda m, b: -losses(m, b), batch, check=False)
            apart.append(_summed_norms(add([part, away[key]]) for key, part in parts.items()))
    found = torch.cat(norms)
    return found, torch.cat(apart) if apart else torch.zeros_like(found)


def _summed_norms(parts: Iterable[Any]) -> Tensor:
    return torch.stack([part.squared_norms() for part in parts]).sum(0).detach().double().cpu()


def gradient_sum(model: nn.Module, data: list[Tensor], indices: Tensor) -> Tensor:
    """The sum of some examples' gradients, flat, by plain autograd."""
    parameters = list(model.parameters())
    total: Any = 0
    for _, batch in rows_of(data, indices):
        pulled = torch.autograd.grad(losses(model, batch).sum(), parameters)
        total = total + torch.cat([gradient.flatten() for gradient in pulled]).double()
    return total


def stratified_variance(
    model: nn.Module, data: list[Tensor], norms: Tensor, assignment: Tensor
) -> tuple[float, Tensor]:
    """Of one draw from each cluster, weighted by its size, exact; and the mean gradient."""
    variance, total = 0.0, torch.zeros((), dtype=torch.float64)
    for cluster in assignment.unique():
        members = (assignment == cluster).nonzero().squeeze(1)
        summed = gradient_sum(model, data, members)
        total = total.to(summed) + summed
        spread = len(members) * float(norms[members].sum()) - float(summed.square().sum())
        variance += max(0.0, spread)
    return variance / len(norms) ** 2, total / len(norms)


@dataclass(frozen=True, eq=False)
class Reference:
    """What SVRG and sampling by norm keep from the snapshot."""

    model: nn.Module
    mean: Tensor
    shares: Tensor


def measure(
    run: Run, partitions: dict[str, Tensor], reference: Reference | None
) -> tuple[dict[str, float], Reference]:
    """Every estimator's variance over that of SG-B, at the present parameters.

    Without a reference the present parameters are it.
    """
    model, data, batch = run.model, run.data, run.options["clusters"]
    norms, differences = squared_norms(model, data, reference.model if reference else None)
    found = {
        name: stratified_variance(model, data, norms, assignment)
        for name, assignment in partitions.items()
    }
    mean = next(iter(found.values()))[1]
    if reference is None:
        reference = Reference(deepcopy(model), mean, norms.sqrt() / norms.sqrt().sum())
    single = float(norms.mean() - mean.square().sum())
    plain = single / batch
    svrg = float(differences.mean() - (mean - reference.mean).square().sum()) / batch
    by_norm = float((norms / reference.shares).mean() / len(norms) - mean.square().sum()) / batch
    measured = {
        "SG-B variance": plain,
        "normalised variance": single / float(mean.square().sum()),
        "SG-2B": 0.5,
        "SG-B without replacement": (len(norms) - batch) / (len(norms) - 1),
        "SVRG": max(0.0, svrg) / plain,
        "norm sampling": by_norm / plain,
        **{name: variance / plain for name, (variance, _) in found.items()},
    }
    return measured, reference


def snapshot_path(options: dict[str, Any], step: int) -> Path:
    return Path(options["out"]) / f"{options['case']}-{options['seed']}-{step}.safetensors"


def train_job(options: dict[str, Any]) -> dict[str, Any]:
    """The trajectory: one file for each snapshot."""
    run = Run(options)
    step = 0
    for target in options["steps"] or run.case["steps"]:
        path = snapshot_path(options, target)
        if path.exists():
            run.load(path, step=target)
        else:
            run.train(target - step)
            run.save(path)
        step = target
    return {"trained": options["case"], "seed": options["seed"]}


def cluster_job(options: dict[str, Any]) -> dict[str, Any]:
    """Cluster at one snapshot, measure there, then train on and measure the stale clusters."""
    record = Path(options["out"]) / f"{options['case']}-{options['seed']}-{options['step']}.json"
    if record.exists():
        return json.loads(record.read_text())
    run = Run(options)
    run.load(snapshot_path(options, options["step"]), step=options["step"])
    dataset = torch.utils.data.TensorDataset(*run.data)
    engines = {
        "thesis": (Rank1(iterations=run.case["iterations"]), None, 128),
        "sketch, cap 2": (Sketch(), 2.0, CHUNK),
        "sketch, cap 1": (Sketch(), 1.0, CHUNK),
    }
    partitions, seconds, insurance = {}, {}, {}
    for name, (engine, cap, batch_size) in engines.items():
        start = time.perf_counter()
        found = cluster_gradients(
            run.model,
            losses,
            dataset,
            n_clusters=options["clusters"],
            engine=engine,
            cap=cap,
            batch_size=batch_size,
            generator=torch.Generator().manual_seed(options["seed"]),
        )
        seconds[name] = time.perf_counter() - start
        partitions[name], insurance[name] = found.assignment, found.insurance
    lags, measured, reference = 0, {}, None
    for lag in (0, *options["lags"]):
        run.train(lag - lags)
        lags = lag
        measured[lag], reference = measure(run, partitions, reference)
    with torch.no_grad():
        loss = torch.cat([losses(run.model, batch) for _, batch in rows_of(run.data)]).mean()
    result = {
        "case": options["case"],
        "seed": options["seed"],
        "step": options["step"],
        "examples": len(dataset),
        "clusters": options["clusters"],
        "loss after the lags": float(loss),
        "seconds": seconds,
        "insurance": insurance,
        "relative variance by lag": measured,
    }
    write_json(record, result)
    return result


def summary(results: list[dict[str, Any]]) -> str:
    """The tables, and the claims beside what was found."""
    names = ["thesis", "sketch, cap 2", "sketch, cap 1", "SG-2B", "SVRG", "norm sampling"]
    lines = []
    for case in sorted({one["case"] for one in results}):
        mine = [one for one in results if one["case"] == case]
        lines += [f"\n{case}: variance over SG-B's (geometric mean over seeds)\n"]
        lines += ["| step | lag | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
        for step in sorted({one["step"] for one in mine}):
            for lag in mine[0]["relative variance by lag"]:
                rows = [one for one in mine if one["step"] == step]
                cells = []
                for name in names:
                    values = [row["relative variance by lag"][lag][name] for row in rows]
                    cells.append(f"{_geometric(values):.3g}" if min(values) > 0 else "0")
                lines.append(f"| {step} | {lag} | " + " | ".join(cells) + " |")
        fresh = _fresh_ratios(mine)
        stale = {
            name: max(row[name] for one in mine for row in one["relative variance by lag"].values())
            for name in ("sketch, cap 2", "sketch, cap 1")
        }
        lines += [
            f"\nsketch over thesis when fresh: {_geometric(fresh):.3f} (at most 0.6), "
            f"worst {max(fresh):.3f} (at most 0.85); by step: " + _by_step(mine),
            "largest cluster over the mean: thesis "
            + " to ".join(
                f"{ends([one['insurance']['thesis'] for one in mine]):.1f}" for ends in (min, max)
            ),
            f"worst at any lag over SG-B: cap 2 {stale['sketch, cap 2']:.3f} (at most 2), "
            f"cap 1 {stale['sketch, cap 1']:.3f} (at most 1.05)",
        ]
    together = _fresh_ratios(results)
    lines += [f"\nall of them: sketch over thesis when fresh {_geometric(together):.3f}"]
    return "\n".join(lines)


def _fresh_ratios(results: list[dict[str, Any]]) -> list[float]:
    """The variance of the sketch engine over that of the thesis's, of each job at the first lag."""
    rows = (next(iter(one["relative variance by lag"].values())) for one in results)
    return [row["sketch, cap 2"] / row["thesis"] for row in rows]


def _by_step(results: list[dict[str, Any]]) -> str:
    steps = sorted({one["step"] for one in results})
    some = {step: [one for one in results if one["step"] == step] for step in steps}
    return ", ".join(f"{_geometric(_fresh_ratios(of)):.3f} at {step}" for step, of in some.items())


def _geometric(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("cases", nargs="*", default=[], help="mnist, cifar10")
    parser.add_argument("--out", type=Path, default=Path("gradients-variance"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--examples", type=int, help="so many training images; all without it")
    parser.add_argument("--clusters", type=int, default=128)
    parser.add_argument("--lags", type=int, nargs="*", default=list(LAGS))
    parser.add_argument("--steps", type=int, nargs="*", help="snapshots instead of the usual")
    parser.add_argument("--at-once", type=int, default=1, help="processes on the device")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--job", type=json.loads, help="one job, as the program calls itself")
    options = parser.parse_args()
    if options.job is not None:
        torch.set_num_threads(options.job["threads"])
        work = train_job if options.job["step"] is None else cluster_job
        print(json.dumps(work(options.job)))
        return
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # of the jobs: numpy asks no other
    options.out.mkdir(parents=True, exist_ok=True)
    common = {
        name: getattr(options, name)
        for name in ("device", "examples", "clusters", "lags", "steps", "threads")
    }
    common["out"] = str(options.out)
    pairs = [(case, seed) for seed in range(options.seeds) for case in options.cases]
    jobs = [{**common, "case": case, "seed": seed, "step": None} for case, seed in pairs]
    start = time.perf_counter()
    run_jobs(__file__, jobs, at_once=options.at_once)
    print(f"trajectories: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    jobs = [
        {**common, "case": case, "seed": seed, "step": step}
        for case, seed in pairs
        for step in (options.steps or CASES[case]["steps"])
    ]
    run_jobs(__file__, jobs, at_once=options.at_once)
    print(f"all: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    files = sorted(options.out.glob("*-*-*.json"))
    results = [json.loads(file.read_text()) for file in files]
    text = summary(results)
    (options.out / "summary.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
