"""What an attack costs beside the model: time of a run over that of its gradients alone.

    export MALLOC_TRIM_THRESHOLD_=2000000000 MALLOC_MMAP_THRESHOLD_=2000000000
    OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python benchmarks/attacks_overhead.py
    PYTHONPATH=src:benchmarks python3 benchmarks/attacks_overhead.py --device cuda

A run of 100 steps on one batch that withstands it (so that none leaves early), all of it included:
checks, first and last forward pass, verification in float64. Right before each run as many forward
passes with a gradient at the input, so that both see the machine in the same state. Rounds
alternate between all contestants, on one thread of a processor; printed are the median of the
ratios and, in brackets, the least and the largest. On a processor a small CNN with batches of 100
(CPU time), on a GPU a ResNet-18 with batches of 1,024 (wall time). The first line keeps freed
memory with the process, for all contestants: otherwise page faults, none or a thousand a gradient
by chance, decide the ratios.
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


def contestants(model: nn.Module, x: Tensor, y: Tensor, steps: int) -> dict[str, Callable[[], Any]]:
    runs: dict[str, Callable[[], Any]] = {}
    for name, (norm, _) in NORMS.items():
        runs[f"strop APGD {name}"] = lambda norm=norm, name=name: apgd(
            model, x, y, norm=norm, eps=BUDGETS[name], steps=steps
        )
    for peer, attack in peers().items():
        for name, (_, p) in NORMS.items():
            if p and not (p == 1 and "torchattacks" in peer):
                runs[f"{peer} {name}"] = lambda attack=attack, name=name, p=p: attack(
                    model, x, y, p, BUDGETS[name], steps, "ce"
                )
    return runs


def timed(run: Callable[[], Any], cuda: bool) -> float:
    if not cuda:
        began = time.process_time()
        run()
        return time.process_time() - began
    torch.cuda.synchronize()
    began = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - began


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
    runs = contestants(model, x, y, options.steps)
    if options.only:
        runs = {name: run for name, run in runs.items() if options.only in name}
    calls = {}
    for name in runs:  # a first run of each warms up, and counts
        counted = Counted(model).eval()
        contestants(counted, x, y, options.steps)[name]()
        calls[name] = counted.calls
    gradients(model, x, y, options.steps)
    alone: dict[str, list[float]] = {name: [] for name in runs}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name, run in runs.items():
            alone[name].append(timed(lambda: gradients(model, x, y, options.steps), cuda))
            seconds[name].append(timed(run, cuda))
    rows = {}
    for name, times in seconds.items():
        ratios = [
            spent / calls[name] / (base / options.steps)
            for spent, base in zip(times, alone[name], strict=True)
        ]
        ratio = median(ratios)
        limit = LIMITS[options.device].get(name.split()[-1]) if "strop" in name else None
        rows[name] = {"ratio": ratio, "ratios": ratios, "calls": calls[name], "limit": limit}
        rows[name] |= {"seconds": times, "gradients": alone[name]}
        said = "" if limit is None else f"  (at most {limit})"
        each = 1e3 * median(times) / calls[name]
        spread = f"[{min(ratios):.2f} {max(ratios):.2f}]"
        print(f"{name:28s} {each:8.2f} ms a gradient  {ratio:5.2f}x {spread}{said}")
    device = torch.cuda.get_device_name() if cuda else platform.processor() or platform.machine()
    write(options.out, {"device": device, "torch": torch.__version__, "batch": batch, "rows": rows})


if __name__ == "__main__":
    main()
