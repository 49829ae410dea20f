"""Proximal maps: prox(x) = argmin_v  scale ||v|| + ||v - x||_2^2 / 2.

Closed forms where there are any, and for every other norm Moreau's identity with the ball of the
dual norm.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from strop.geometry import lp
from strop.geometry.checks import as_examples, as_radius, like_input, working
from strop.geometry.projections import project_l1_ball

__all__ = ["moreau", "prox_l1", "prox_l2", "prox_linf"]


def moreau(
    project_dual: Callable[[Tensor, float | Tensor], Tensor], x: Tensor, scale: float | Tensor
) -> Tensor:
    """The proximal map of scale ||.||, from the projection onto the ball of its dual norm.

    Moreau's identity: prox(x) = x - project_dual(x, scale).

    >>> moreau(project_l1_ball, torch.tensor([[3.0, 0.0, -4.0]]), 2.0)  # of the linf norm
    tensor([[ 2.5000,  0.0000, -2.5000]])
    """
    raised = working(x)
    return (raised - project_dual(raised, scale)).to(x.dtype)


def prox_l1(x: Tensor, scale: float | Tensor) -> Tensor:
    """argmin_v  scale ||v||_1 + ||v - x||_2^2 / 2: the soft threshold.

    >>> prox_l1(torch.tensor([[3.0, 0.5, -4.0]]), 1.0)
    tensor([[ 2.,  0., -3.]])
    """
    examples = as_examples(x)
    level = as_radius(scale, examples, name="scale")
    return like_input((examples.abs() - level).relu() * examples.sign(), x)


def prox_l2(x: Tensor, scale: float | Tensor) -> Tensor:
    """argmin_v  scale ||v||_2 + ||v - x||_2^2 / 2: each example shortened by ``scale``, or zero.

    >>> prox_l2(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    tensor([[2.4000, 3.2000], [0.0000, 0.0000]])
    """
    examples = as_examples(x)
    level = as_radius(scale, examples, name="scale")
    size = lp.value(examples, 2.0)[:, None]
    longer = size > level
    factor = torch.where(longer, 1 - level / torch.where(longer, size, 1.0), 0.0)
    return like_input(examples * factor, x)


def prox_linf(x: Tensor, scale: float | Tensor) -> Tensor:
    """argmin_v  scale ||v||_inf + ||v - x||_2^2 / 2: the largest entries cut down by ``scale``.

    >>> prox_linf(torch.tensor([[3.0, 0.0, -4.0]]), 2.0)
    tensor([[ 2.5000,  0.0000, -2.5000]])
    """
    return moreau(project_l1_ball, x, scale)
