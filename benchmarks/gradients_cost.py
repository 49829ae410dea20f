"""What per-example quantities cost beside a plain forward and backward pass, and beside the peers.

Claims, one thread, processor time over that of plain ``loss.backward()`` on the same batch:

| | MLP 784-1024-1024-10, B=128 | ResNet8 without normalisation, B=64 |
|---|---|---|
| per-example norms | 1.1 | 1.6 |
| rank-one A step, K=128 | 1.25 | 2.0 |
| sketch, R=256 | 1.3 | 1.9 |

and at most 1.3 of plain memory: weights, batch and the peak of what the call allocates.

The sides take turns in one process; a ratio is the median over rounds of the side's time over
plain's in the same round. Functions of strop do not compute the gradients of parameters, which
plain, BackPACK and Opacus do on the way. The peers are optional:
pip install backpack-for-pytorch opacus.

    python benchmarks/gradients_cost.py --out cost.json
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from strop.gradients import (
    capture,
    gradient_gram,
    gradient_sketch,
    per_example_norms,
    random_projection,
)
from strop.gradients.network import each_parameter
from strop.gradients.rules import rule_for
from strop.models import cifar_resnet, mlp

CLUSTERS, SKETCH = 128, 256
LIMITS = {"norms": (1.1, 1.6), "A step": (1.25, 2.0), "sketch": (1.3, 1.9)}
Side = Callable[[], Any]


def losses(model: nn.Module, batch: Any) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


def strop_sides(model: nn.Module, batch: Any) -> dict[str, Side]:
    generator = torch.Generator().manual_seed(0)
    projection = random_projection(model, size=SKETCH, generator=generator)
    centres = random_projection(model, size=CLUSTERS, generator=generator).factors
    weights = {name: factors for name, factors in centres.items() if name.endswith("weight")}

    def assignment() -> Tensor:
        """As the engine of the thesis: squared distances to K centres of rank one per layer."""
        total: Any = 0
        for name, part in each_parameter(model, losses, batch, check=False):
            if name not in weights:
                continue
            left, right = weights[name]
            inner, norms = part.rank_one_and_norms(left, right)
            total = (
                total + left.square().sum(1) * right.square().sum(1) - 2 * inner + norms[:, None]
            )
        return total.argmin(1)

    def beside() -> Tensor:
        """The same norms out of an ordinary backward pass, which leaves the gradient in .grad."""
        model.zero_grad()
        with capture(model, keep_outputs=False) as tape:
            losses(model, batch).sum().backward()
        total: Any = 0
        while tape.uses:
            use = tape.uses.pop(0)
            parts = rule_for(use.layer)(use.layer, use.activations, use.output_gradients)
            total = total + sum(part.squared_norms() for part in parts.values())
        model.zero_grad()
        return total.sqrt()

    return {
        "strop, norms": lambda: per_example_norms(model, losses, batch, check=False),
        f"strop, A step K={CLUSTERS}": assignment,
        f"strop, sketch R={SKETCH}": lambda: gradient_sketch(
            model, losses, batch, projection=projection, check=False
        ),
        "strop, beside backward(): norms": beside,
        "strop, Gram matrix": lambda: gradient_gram(model, losses, batch, check=False),
    }


def torch_func_sides(model: nn.Module, batch: Any) -> dict[str, Side]:
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def single(parameters: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        output = torch.func.functional_call(model, parameters, (image.unsqueeze(0),))
        return nn.functional.cross_entropy(output, label.unsqueeze(0))

    each = torch.func.vmap(torch.func.grad(single), in_dims=(None, 0, 0))
    return {"torch.func, vmap(grad) then norms": lambda: _norms(each(parameters, *batch).values())}


def backpack_sides(model: nn.Module, batch: Any) -> dict[str, Side]:
    try:
        from backpack import backpack, extend
        from backpack.extensions import BatchGrad, BatchL2Grad
    except ImportError:
        print("backpack-for-pytorch is not installed: its rows are left out")
        return {}
    model = extend(deepcopy(model))
    criterion = extend(nn.CrossEntropyLoss())

    def side(extension: Any, read: Callable[[Any], Tensor]) -> Side:
        def call() -> Tensor:
            model.zero_grad()
            loss = criterion(model(batch[0]), batch[1])
            with backpack(extension()):
                loss.backward()
            return read(model.parameters())

        return call

    return {
        "BackPACK, BatchL2Grad (norms)": side(
            BatchL2Grad, lambda ps: torch.stack([p.batch_l2 for p in ps]).sum(0).sqrt()
        ),
        "BackPACK, BatchGrad then norms": side(
            BatchGrad, lambda ps: _norms([p.grad_batch for p in ps])
        ),
    }


def opacus_sides(model: nn.Module, batch: Any) -> dict[str, Side]:
    try:
        from opacus.grad_sample import GradSampleModule
        from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
            GradSampleModuleFastGradientClipping as Ghost,
        )
    except ImportError as error:
        print(f"opacus is not to be had ({error}): its rows are left out")
        return {}
    hooked = GradSampleModule(deepcopy(model))
    ghost = Ghost(deepcopy(model), max_grad_norm=1.0, use_ghost_clipping=True)

    def samples() -> Tensor:
        hooked.zero_grad()
        nn.functional.cross_entropy(hooked(batch[0]), batch[1]).backward()
        return _norms([p.grad_sample for p in hooked.parameters()])

    def norms() -> Tensor:
        ghost.zero_grad()
        nn.functional.cross_entropy(ghost(batch[0]), batch[1]).backward()
        return ghost.get_norm_sample()

    return {"Opacus, ghost norms": norms, "Opacus, grad_sample then norms": samples}


def _norms(gradients: Any) -> Tensor:
    return torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0).sqrt()


def plain_side(model: nn.Module, batch: Any) -> Side:
    def call() -> None:
        model.zero_grad()
        losses(model, batch).mean().backward()

    return call


def peak_bytes(side: Side) -> int:
    """The most that one call has allocated at a time."""
    side()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        side()
    events = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    present = peak = 0
    for event in events:
        present += event.nbytes()
        peak = max(peak, present)
    return peak


def measure(
    name: str, model: nn.Module, batch: Any, *, rounds: int, peers: bool
) -> list[dict[str, Any]]:
    plain = plain_side(deepcopy(model), batch)
    sides = {"plain forward and backward": plain, **strop_sides(model, batch)}
    if peers:
        sides |= torch_func_sides(model, batch)
        sides |= backpack_sides(model, batch) | opacus_sides(model, batch)
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    first = seconds["plain forward and backward"]
    values = {side: call() for side, call in sides.items()}
    expected = values["strop, norms"]
    for side, norms in values.items():
        if "norms" in side:
            scale = len(expected) if side.startswith("BackPACK") else 1.0
            torch.testing.assert_close(norms * scale, expected, rtol=1e-3, atol=1e-5)
    ratios: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(rounds):
        for side, call in sides.items():
            if turn % 5 and seconds[side] and seconds[side][0] > 10 * first[0]:
                continue  # what takes so long needs no fine measuring
            start = time.process_time()
            call()
            seconds[side].append(time.process_time() - start)
            ratios[side].append(seconds[side][-1] / first[-1])
    fixed = sum(t.nbytes for t in (*model.parameters(), *batch))
    bytes_of = {side: fixed + peak_bytes(call) for side, call in sides.items()}
    return [
        {
            "model": name,
            "side": side,
            "milliseconds": 1e3 * statistics.median(times),
            "time ratio": statistics.median(ratios[side]),
            "megabytes": bytes_of[side] / 2**20,
            "memory ratio": bytes_of[side] / bytes_of["plain forward and backward"],
        }
        for side, times in seconds.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-peers", action="store_true", help="strop and plain alone")
    parser.add_argument("--only", choices=["MLP", "ResNet8"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    records = []
    if options.only != "ResNet8":
        digits = torch.randn(128, 784, generator=generator)
        batch = (digits, torch.randint(10, (128,), generator=generator))
        model: nn.Module = mlp(generator=generator)
        records += measure("MLP", model, batch, rounds=options.rounds, peers=not options.no_peers)
    if options.only != "MLP":
        images = torch.randn(64, 3, 32, 32, generator=generator)
        batch = (images, torch.randint(10, (64,), generator=generator))
        model = cifar_resnet(8, normalisation="none", generator=generator)
        records += measure(
            "ResNet8", model, batch, rounds=options.rounds, peers=not options.no_peers
        )
    print(f"{'model':9}{'side':36}{'cpu ms':>9}{'ratio':>8}{'limit':>7}{'MB':>8}{'memory':>8}")
    for one in records:
        kind = next((kind for kind in LIMITS if f"strop, {kind}" in one["side"]), None)
        limit = f"{LIMITS[kind][one['model'] == 'ResNet8']:.2f}" if kind else ""
        print(
            f"{one['model']:9}{one['side']:36}{one['milliseconds']:9.1f}{one['time ratio']:8.2f}"
            f"{limit:>7}{one['megabytes']:8.1f}{one['memory ratio']:8.2f}"
        )
    if options.out:
        about = {"torch": torch.__version__, "machine": platform.processor(), "threads": 1}
        options.out.write_text(json.dumps({**about, "records": records}, indent=2) + "\n")


if __name__ == "__main__":
    main()
