"""What an attack costs beside the model: time of a run over that of its gradients alone.

    export MALLOC_TRIM_THRESHOLD_=2000000000 MALLOC_MMAP_THRESHOLD_=2000000000
    OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python benchmarks/attacks_overhead.py
    PYTHONPATH=src:benchmarks python3 benchmarks/attacks_overhead.py --device cuda

A run of 100 steps on one batch that withstands it (so that none leaves early), all of it included:
checks, first and last forward pass, verification in float64; beside it as many forward passes with
a gradient at the input. Rounds alternate between all contestants; printed are the median of the
ratios and, in brackets, the least and the largest. On a processor, one thread, a small CNN with
batches of 100 and CPU time: a gradient of its own comes before each one of the attack, so that both
see the machine in the same state. On a GPU a ResNet-18 with batches of 1,024 and wall time: as many
gradients before each run. The first line keeps freed memory with the process, for all contestants:
otherwise page faults, none or a thousand a gradient by chance, decide the ratios.
"""

import argparse
import math
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from attack_peers import Counted, peers
from side_by_side import write
from torch import Tensor, nn
from torch.nn import functional

from strop.attacks import apgd
from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.models import resnet18, small_cnn

NORMS: dict[str, tuple[Norm, float]] = {
    "linf": (Linf, math.inf),
    "l2": (L2, 2),
    "l1": (L1, 1),
    "fourier-linf": (Fourier(Linf, dims=2), 0),
    "fourier-l2": (Fourier(L2, dims=2), 0),
    "fourier-l1": (Fourier(L1, dims=2), 0),
}
LIMITS = {
    "cpu": {"linf": 1.15, "l2": 1.15, "l1": 1.6, "fourier-linf": 1.3},
    "cuda": dict.fromkeys(NORMS, 1.05),
}
BUDGETS = {"linf": 8 / 255, "l2": 0.5, "l1": 12.0}
BUDGETS |= {f"fourier-{name}": eps for name, eps in BUDGETS.items()}


class Firm(nn.Module):
    """The model with a head start for the class it gives to x: no attack breaks it.

    The gradients cost what they cost; only that examples would leave the batch is ruled out.
    """

    def __init__(self, model: nn.Module, labels: Tensor, classes: int = 10) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("lead", 4.0 * functional.one_hot(labels, classes).float())

    def forward(self, x: Tensor) -> Tensor:
        return 0.01 * self.model(x) + self.lead


def gradients(model: nn.Module, x: Tensor, y: Tensor, calls: int) -> None:
    for _ in range(calls):
        point = x.clone().requires_grad_()
        loss = functional.cross_entropy(model(point), y, reduction="sum")
        torch.autograd.grad(loss, point)


Run = Callable[[nn.Module], Any]


def contestants(x: Tensor, y: Tensor, steps: int) -> dict[str, Run]:
    runs: dict[str, Run] = {}
    for name, (norm, _) in NORMS.items():
        runs[f"strop APGD {name}"] = lambda model, norm=norm, name=name: apgd(
            model, x, y, norm=norm, eps=BUDGETS[name], steps=steps
        )
    for peer, attack in peers().items():
        for name, (_, p) in NORMS.items():
            if p and not (p == 1 and "torchattacks" in peer):
                runs[f"{peer} {name}"] = lambda model, attack=attack, name=name, p=p: attack(
                    model, x, y, p, BUDGETS[name], steps, "ce"
                )
    return runs


class Interleaved(nn.Module):
    """The model, and before each call that a gradient follows a gradient of its own, timed."""

    def __init__(self, model: nn.Module, x: Tensor, y: Tensor) -> None:
        super().__init__()
        self.model, self.x, self.y = model, x, y
        self.calls, self.alone = 0, 0.0

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() and x.requires_grad:
            began = time.process_time()
            gradients(self.model, self.x, self.y, 1)
            self.alone += time.process_time() - began
            self.calls += 1
        return self.model(x)


def on_processor(run: Run, model: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
    interleaved = Interleaved(model, x, y).eval()
    began = time.process_time()
    run(interleaved)
    spent = time.process_time() - began - interleaved.alone
    return {"calls": interleaved.calls, "run": spent, "gradients": interleaved.alone}


def on_gpu(run: Run, model: nn.Module, x: Tensor, y: Tensor, calls: int) -> dict[str, float]:
    torch.cuda.synchronize()
    began = time.perf_counter()
    gradients(model, x, y, calls)
    torch.cuda.synchronize()
    between = time.perf_counter()
    run(model)
    torch.cuda.synchronize()
    ended = time.perf_counter()
    return {"calls": calls, "run": ended - between, "gradients": between - began}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--only", help="contestants whose name holds this")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cuda = options.device == "cuda"
    batch = options.batch or (1024 if cuda else 100)
    network = (resnet18() if cuda else small_cnn()).eval().to(options.device)
    x = torch.rand(batch, 3, 32, 32, device=options.device)
    with torch.no_grad():
        y = network(x).argmax(dim=1)
    model = Firm(network, y).eval().to(options.device)
    runs = contestants(x, y, options.steps)
    if options.only:
        runs = {name: run for name, run in runs.items() if options.only in name}
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    counted = {name: Counted(model).eval() for name in runs}
    for name, run in runs.items():  # a first run of each warms up, and counts
        run(counted[name])
    for _ in range(options.rounds):
        for name, run in runs.items():
            if cuda:
                rounds[name].append(on_gpu(run, model, x, y, counted[name].calls))
            else:
                rounds[name].append(on_processor(run, model, x, y))
    rows = {}
    for name, measured in rounds.items():
        ratios = [one["run"] / one["gradients"] for one in measured]
        limit = LIMITS[options.device].get(name.split()[-1]) if "strop" in name else None
        rows[name] = {"ratio": median(ratios), "rounds": measured, "limit": limit}
        each = 1e3 * median(one["run"] / one["calls"] for one in measured)
        spread = f"[{min(ratios):.2f} {max(ratios):.2f}]"
        said = "" if limit is None else f"  (at most {limit})"
        print(f"{name:28s} {each:8.2f} ms a gradient  {median(ratios):5.2f}x {spread}{said}")
    device = torch.cuda.get_device_name() if cuda else platform.processor() or platform.machine()
    write(options.out, {"device": device, "torch": torch.__version__, "batch": batch, "rows": rows})


if __name__ == "__main__":
    main()
