"""Per-example gradients the slow and obvious way: one backward pass per example."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from strop.gradients import PerExample


def layer_gradients(layer: nn.Module, inputs: Tensor, output_gradients: Tensor) -> dict[str, Any]:
    """g_n of ``<d_n, layer(x_n)>`` by parameter name, (n, *shape)."""

    def loss(model: nn.Module, n: int) -> Tensor:
        return (model(inputs[n : n + 1]) * output_gradients[n : n + 1]).sum()

    return network_gradients(layer, loss, examples=len(inputs))


def network_gradients(
    model: nn.Module, loss: Callable[[nn.Module, int], Tensor], *, examples: int
) -> dict[str, Tensor]:
    """g_n of ``loss(model, n)``, a scalar, by parameter name, (n, *shape)."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    rows: dict[str, list[Tensor]] = {name: [] for name in named}
    for n in range(examples):
        found = torch.autograd.grad(loss(model, n), list(named.values()), allow_unused=True)
        for (name, parameter), gradient in zip(named.items(), found, strict=True):
            rows[name].append(torch.zeros_like(parameter) if gradient is None else gradient)
    return {name: torch.stack(parts).detach() for name, parts in rows.items()}


def agree(part: PerExample, expected: Tensor, *, centres: int = 3) -> None:
    """Every quantity is what the gradients themselves give."""
    n = len(expected)
    flat = expected.reshape(n, -1)
    rows = expected.shape[1] if expected.ndim > 1 else 1
    generator = torch.Generator().manual_seed(n)
    close = {"rtol": 1e-9, "atol": 1e-9}
    c = torch.randn(centres, *expected.shape[1:], generator=generator, dtype=expected.dtype)
    left = torch.randn(centres, rows, generator=generator, dtype=expected.dtype)
    right = torch.randn(centres, flat.shape[1] // rows, generator=generator, dtype=expected.dtype)
    outer = (left.unsqueeze(2) * right.unsqueeze(1)).flatten(1)
    torch.testing.assert_close(part.materialise(), expected, **close)
    torch.testing.assert_close(part.squared_norms(), flat.square().sum(1), **close)
    torch.testing.assert_close(part.gram(), flat @ flat.T, **close)
    squares, with_sum = part.inner_with_sum()
    torch.testing.assert_close(squares, flat.square().sum(1), **close)
    torch.testing.assert_close(with_sum, flat @ flat.sum(0), **close)
    torch.testing.assert_close(part.inner(c), flat @ c.reshape(centres, -1).T, **close)
    torch.testing.assert_close(part.inner_rank_one(left, right), flat @ outer.T, **close)
