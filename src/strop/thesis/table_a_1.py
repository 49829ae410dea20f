"""Table A.1: what the A and U steps of the thesis's clustering cost beside back-propagation.

    strop thesis run table-A.1

Thesis appendix A.2.2 counts operations; here they are counted for each layer of the thesis's models
and timed on whole passes. A step: squared distances of every example to K centres of rank one. U
step: means of activations and output gradients by cluster. Both include the forward and backward
pass that they need; what they add is the overhead. Memory: numbers in the K centres over the
numbers that one example's activations and output gradients take, in units of K examples. Expected:
overhead of both at most twice a pass; memory at most that of K more examples (claim G6). Processor
time of one thread, in turns; 1.5 minutes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from strop.gradients import Rank1, cluster_gradients
from strop.gradients.network import each_parameter
from strop.gradients.per_example import Factored
from strop.models import cifar_resnet, mlp
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.drawing import Row, Table
from strop.thesis.trajectories import losses
from strop.thesis.verdicts import interval_of


@dataclass(frozen=True)
class Settings:
    """Models, batch sizes and numbers of clusters."""

    models: tuple[str, ...] = ("MLP", "ResNet8")
    batch: int = 64
    clusters: tuple[int, ...] = (10, 64)
    batches: int = 2
    rounds: int = 7


PRESETS = {
    "smoke": Settings(models=("small MLP",), batch=16, clusters=(4,), rounds=2),
    "small": Settings(),
    "gpu": Settings(batch=128, clusters=(10, 128), rounds=15),
    "paper": Settings(batch=128, clusters=(10, 128), rounds=15),
}


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    calls = [
        {
            "model": model,
            "batch": settings.batch,
            "clusters": clusters,
            "batches": settings.batches,
            "rounds": settings.rounds,
        }
        for model in settings.models
        for clusters in settings.clusters
    ]
    return each(measure_cost, calls)


def _network(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    generator = torch.Generator().manual_seed(0)
    if name == "MLP":
        return mlp(generator=generator), (784,)
    if name == "small MLP":
        return mlp((20, 16, 10), generator=generator), (20,)
    if name == "ResNet8":
        return cifar_resnet(8, normalisation="none", generator=generator), (3, 32, 32)
    raise ValueError(f"expected MLP, small MLP or ResNet8, came {name!r}")


def measure_cost(*, model: str, batch: int, clusters: int, batches: int, rounds: int) -> Record:
    """Ratios of processor time to a plain pass, round by round, and counts of operations."""
    torch.set_num_threads(1)
    network, shape = _network(model)
    generator = torch.Generator().manual_seed(1)
    data = torch.utils.data.TensorDataset(
        torch.randn(batches * batch, *shape, generator=generator),
        torch.randint(10, (batches * batch,), generator=generator),
    )

    def plain() -> None:
        for rows in torch.arange(len(data)).split(batch):
            losses(network, data[rows]).mean().backward()

    def steps(iterations: int) -> Callable[[], Any]:
        return lambda: cluster_gradients(
            network,
            losses,
            data,
            n_clusters=clusters,
            engine=Rank1(iterations=iterations),
            batch_size=batch,
        )

    # One more iteration is one more U step and one more A step, each a pass over the data.
    sides = {"plain": plain, "fewer": steps(2), "more": steps(3)}
    for side in sides.values():
        side()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            began = time.process_time()
            side()
            seconds[name].append(time.process_time() - began)
    both = [
        (more - fewer) / one
        for one, fewer, more in zip(
            seconds["plain"], seconds["fewer"], seconds["more"], strict=True
        )
    ]
    return {
        "model": model,
        "batch": batch,
        "clusters": clusters,
        "A_and_U": [round(one, 3) for one in both],
        **counted(network, data[torch.arange(2)], clusters=clusters),
    }


def counted(network: nn.Module, batch: Any, *, clusters: int) -> Record:
    """Multiplications by table A.1 for one example, over those of back-propagation; and memory.

    For each layer the cheaper of the two routes: T positions, I inputs, O outputs of a group.
    """
    back = assign = update = centre = example = 0
    for _, part in each_parameter(network, losses, batch, check=False):
        if not isinstance(part, Factored):
            continue
        t, i, o, k = part.positions, part.inputs, part.outputs, clusters
        back += t * i * o
        inner = min((t + k) * i * o, t * k * (i + o))
        norm = min(t * i * o, t * t * (i + o))
        assign += inner + norm
        update += t * (i + o)
        centre += i + o
        # What is kept of an example: its activations once (not each patch), and output gradients.
        example += t * (i + o) if t == 1 else t * (part.shape[1] + o)
    return {
        "operations_A": round(assign / back, 3),
        "operations_U": round(update / back, 3),
        "memory_in_K_examples": round(centre / example, 4),
    }


def draw(records: list[Record]) -> Table:
    return Table(
        (
            "model",
            "batch",
            "K",
            "A and U, in passes",
            "beyond their own two",
            "A, operations",
            "U, operations",
            "memory, in K examples",
        ),
        tuple(
            Row(
                (
                    one["model"],
                    str(one["batch"]),
                    str(one["clusters"]),
                    f"{interval_of(one['A_and_U']).mean:.2f}",
                    f"{interval_of(overhead(one)).mean:.2f}",
                    f"{one['operations_A']:.2f}",
                    f"{one['operations_U']:.2f}",
                    f"{one['memory_in_K_examples']:.2f}",
                )
            )
            for one in records
        ),
        caption="Time over that of a forward and backward pass; operations over those of the "
        "weights' gradients",
    )


def overhead(record: Record) -> list[float]:
    """What an A and a U step cost beyond the two passes that they are part of, in passes.

    Negative where they cost less: a pass of theirs computes no gradient of a weight.
    """
    return [both - 2 for both in record["A_and_U"]]
