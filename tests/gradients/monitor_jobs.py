"""Trainings with and without a monitor, in one process and in many: their losses are compared."""

from typing import Any

import torch
from torch import Tensor, nn

from strop.gradients import GradientMonitor

STEPS, BATCH = 12, 16


def make_model(kind: str) -> nn.Module:
    torch.manual_seed(0)
    normal: list[nn.Module] = [nn.BatchNorm1d(8)] if kind == "batch norm" else []
    return nn.Sequential(nn.Linear(5, 8), *normal, nn.ReLU(), nn.Dropout(0.4), nn.Linear(8, 3))


def make_batch(seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(BATCH, 5, generator=generator)
    return [x, x[:, :3].argmax(1)]


def losses(model: nn.Module, batch: list[Tensor]) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


def train(kind: str, monitored: bool, **options: Any) -> tuple[list[float], dict[str, Any], Any]:
    """The losses of a run with dropout, its last state, and the monitor."""
    model = make_model(kind)
    network: nn.Module = model
    offset = 0
    if torch.distributed.is_initialized():
        network = nn.parallel.DistributedDataParallel(model)
        offset = 1000 * torch.distributed.get_rank()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    monitor = GradientMonitor(network, losses, every=3, **options) if monitored else None
    found = []
    torch.manual_seed(1)
    for step in range(STEPS):
        batch = make_batch(step + offset)
        optimizer.zero_grad()
        loss = losses(network, batch).mean()
        if monitor is not None:  # at the worst place: a graph waits for its backward pass
            monitor.step(batch)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found, model.state_dict(), monitor


def both(kind: str) -> tuple[list[float], list[float], int]:
    """Without and with a monitor, and how many measurements this process recorded."""
    plain, _, _ = train(kind, False)
    watched, _, monitor = train(kind, True)
    torch.distributed.barrier()
    return plain, watched, len(monitor.events)
