"""A small problem that every training test can afford: a net with dropout, and its data."""

from typing import Any

import torch
from torch import Tensor, nn

from strop.training import IndexedBatches, gather_with_gradient


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


def make_pairs_model(*, dropout: float = 0.0) -> nn.Module:
    """Two encoders, in double precision so that only an error of principle shows."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoders = {
            "image": nn.Sequential(nn.Linear(6, 5), nn.Dropout(dropout)),
            "text": nn.Linear(4, 5),
            "spare": nn.Linear(2, 2),  # never used: its gradient must stay None
        }
        return nn.ModuleDict(encoders).double()


def make_pairs(count: int = 24) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    images = torch.randn(count, 6, generator=generator, dtype=torch.float64)
    return images, images[:, :4] + torch.randn(count, 4, generator=generator, dtype=torch.float64)


def pair_batches(count: int = 24, batch_size: int = 8) -> IndexedBatches:
    images, texts = make_pairs(count)
    return IndexedBatches(lambda i: (images[i], texts[i]), count=count, batch_size=batch_size)


def in_batch_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """A hinge over all pairs of the global batch, wherever its slices lie."""
    images, texts = (gather_with_gradient(e) for e in embed(model, batch))
    similarity = images @ texts.t()
    cost = (0.2 + similarity - similarity.diag()[:, None]).clamp(min=0)
    return cost.masked_fill(
        torch.eye(len(cost), dtype=torch.bool, device=cost.device), 0
    ).sum() / len(cost)


def embed(model: nn.Module, batch: tuple[Tensor, Tensor]) -> list[Tensor]:
    parts = zip(("image", "text"), batch, strict=True)
    return [nn.functional.normalize(model[name](x), dim=1) for name, x in parts]  # type: ignore[index]


def mean_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """A mean over examples that needs no others."""
    images, texts = embed(model, batch)
    return (images - texts).square().sum(dim=1).mean()
