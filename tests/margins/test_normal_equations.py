"""The linear system of the interior-point method, solved as accurately as its end needs."""

import pytest
import torch

from strop.margins.normal_equations import NormalEquations


@pytest.mark.parametrize("shape", [(40, 90), (900, 40), (1500, 40)])
@pytest.mark.parametrize("spread", [2, 8])
def test_both_equations_hold_however_far_the_diagonal_spreads(
    shape: tuple[int, int], spread: int
) -> None:
    """Near an optimum few points count (small entries) and most do not (large ones)."""
    generator = torch.Generator().manual_seed(0)
    n, d = shape
    exponents = torch.rand(n, generator=generator, dtype=torch.float64) * 2 * spread - spread
    diagonal = 10.0**exponents
    factor = torch.randn(n, d, generator=generator, dtype=torch.float64)
    factor *= 10.0 ** (torch.rand(d, generator=generator, dtype=torch.float64) * spread / 2)
    r = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    h = torch.randn(d, 2, generator=generator, dtype=torch.float64)
    x, y = NormalEquations(diagonal, factor).solve(r, h)
    first = r - diagonal[:, None] * x - factor @ y
    second = h - factor.T @ x + y
    # As small as rounding of the terms themselves allows.
    eps = torch.finfo(torch.float64).eps
    largest = (diagonal[:, None] * x.abs() + factor.abs() @ y.abs()).max()
    assert float(first.abs().max()) <= 100 * eps * float(largest)
    largest = (factor.abs().T @ x.abs() + y.abs()).max()
    assert float(second.abs().max()) <= 100 * eps * float(largest)
