"""Empirical risks of strictly falling losses, in the log domain, so that none vanishes too early.

L(m) = mean_i zeta(m_i):  exponential  zeta(m) = exp(-m);   logistic  zeta(m) = log(1 + exp(-m)).

Legend: n points; axes before them are other problems.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from strop.support import InputError

__all__ = ["Loss", "log_risk", "pull"]

Loss = Literal["exponential", "logistic"]


def log_risk(values: Tensor, loss: Loss) -> Tensor:
    """log mean_i zeta(m_i) of values (…, n); finite long after the risk itself has underflowed.

    >>> log_risk(torch.tensor([2000.0, 2000.0]), "exponential")
    tensor(-2000.)
    """
    return _log_losses(values, loss).logsumexp(-1) - math.log(values.shape[-1])


def pull(values: Tensor, loss: Loss) -> Tensor:
    """-d log L / d m, (…, n): how much each point pulls; for the exponential loss a mixture.

    >>> pull(torch.tensor([0.0, 0.0]), "exponential")
    tensor([0.5000, 0.5000])
    """
    logs = _log_losses(values, loss)
    shares = (logs - logs.logsumexp(-1, keepdim=True)).exp()
    if loss == "exponential":
        return shares
    # zeta'/zeta: 1 in the tail; sigmoid(-m) / softplus(-m).
    ratio = torch.where(
        values > 30, torch.ones_like(values), torch.sigmoid(-values) / softplus(-values)
    )
    return shares * ratio


def _log_losses(values: Tensor, loss: Loss) -> Tensor:
    if loss == "exponential":
        return -values
    if loss == "logistic":
        # log softplus(-m) = -m up to exp(-m)/2 for large m.
        return torch.where(values > 30, -values, softplus(-values.clamp(max=30)).log())
    raise InputError(f"expected the loss 'exponential' or 'logistic', came {loss!r}")
