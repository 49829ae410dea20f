"""A small problem that every training test can afford: a net with dropout, and its data."""

from typing import Any

import torch
from torch import Tensor, nn

from strop.training import IndexedBatches


def make_model(
    *, dropout: float = 0.3, seed: int = 0, dtype: torch.dtype | None = None
) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 3)
        ).to(dtype)


def make_data(count: int = 48, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, 6, generator=generator, dtype=dtype)
    return x, (x[:, :3] + 0.3 * x[:, 3:]).argmax(dim=1)


def make_batches(*, count: int = 48, batch_size: int = 8, **options: Any) -> IndexedBatches:
    x, y = make_data(count)
    return IndexedBatches(lambda i: (x[i], y[i]), count=count, batch_size=batch_size, **options)


def loss_fn(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def accuracy(model: nn.Module) -> dict[str, float]:
    x, y = make_data()
    return {"accuracy": (model(x).argmax(dim=1) == y).double().mean().item()}


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.01)


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)
