"""The l2 margin exactly: non-negative least squares on the Gram matrix.

    min_q ||Z^T q||_2^2 = q'Kq,   K = Z Z',   q >= 0,   P'q = shares.

On a guess F of the support the optimum is one linear solve; exchanging all the points that
contradict the guess at once (block principal pivoting, Judice and Pires 1994; Kim and Park 2011)
ends in a handful of solves, starting from all of them: in high dimension nearly all points support.

Legend: n points, p groups.
"""

from __future__ import annotations

import torch
from torch import Tensor

from strop.geometry import L2, Norm
from strop.margins.data import SignedData
from strop.margins.result import MarginResult, finish

__all__ = ["solve_gram"]

_PATIENCE = 4
_RIDGE = 1e-13


def solve_gram(data: SignedData, *, tol: float = 1e-6, attack: Norm = L2) -> MarginResult:
    """The maximum l2 margin by Gram matrix and non-negative least squares, in float64.

    argmax_{||w||_2 <= 1, b}  min_i y_i (w.x_i + b)         Thesis eq. (5.5)

    >>> from strop.margins.data import signed_data
    >>> result = solve_gram(signed_data([[2.0, 0.0], [0.0, 1.0]], [1, 1]))
    >>> round(result.margin, 5)
    0.89443
    """
    rows = data.rows.to(torch.float64)
    gram = (rows @ rows.to_dense().T) if data.sparse else rows @ rows.T
    members = torch.stack([m for m, _ in data.groups()], 1).to(gram)
    shares = gram.new_tensor([share for _, share in data.groups()])
    mixture, solves = _least_norm_mixture(gram, members, shares)
    weights = data.mix(mixture)
    return finish(data, weights, mixture, attack=attack, tol=tol, iterations=solves, solver="gram")


def _least_norm_mixture(gram: Tensor, members: Tensor, shares: Tensor) -> tuple[Tensor, int]:
    n = len(gram)
    scale = float(gram.diagonal().mean()) or 1.0
    # A ridge far below the tolerance makes the optimum unique where points repeat.
    gram = gram / scale
    gram.diagonal().add_(_RIDGE * n)
    support = torch.ones(n, dtype=torch.bool, device=gram.device)
    fewest, patience = n + 1, _PATIENCE
    limit = 50 + 5 * n
    for solves in range(1, limit + 1):
        q, levels = _on_support(gram, members, shares, support)
        slackness = gram @ q - members @ levels
        wrong = torch.where(support, q < 0, slackness < -1e-12 * levels.abs().max())
        count = int(wrong.sum())
        if count == 0:
            return q, solves
        if count < fewest:
            fewest, patience = count, _PATIENCE
        elif patience > 0:
            patience -= 1
        else:  # one at a time, the last of them: slower, but it cannot cycle
            last = int(wrong.nonzero()[-1])
            wrong = torch.zeros_like(wrong)
            wrong[last] = True
        changed = support ^ wrong
        # Each group needs a point: leave it the one with the largest share.
        for column in members.T.bool():
            if not bool((changed & column).any()):
                changed[torch.where(column, q, -torch.inf).argmax()] = True
        support = changed
    return q, limit


def _on_support(
    gram: Tensor, members: Tensor, shares: Tensor, support: Tensor
) -> tuple[Tensor, Tensor]:
    """argmin q'Kq over P'q = shares with q zero off the support, and the multipliers."""
    inside = members[support]
    lower, failed = torch.linalg.cholesky_ex(gram[support][:, support])
    block = gram[support][:, support]
    solved = (
        torch.linalg.lstsq(block, inside).solution
        if bool(failed)
        else torch.cholesky_solve(inside, lower)
    )
    levels = torch.linalg.solve(inside.T @ solved, shares)
    q = torch.zeros(len(gram), dtype=gram.dtype, device=gram.device)
    q[support] = solved @ levels
    return q, levels
