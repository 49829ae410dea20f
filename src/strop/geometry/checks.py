"""What every function here asks of its tensors: a batch of real examples, one radius for each.

Legend: b example of the batch, k coordinate of the flattened example.
"""

import math

import torch
from torch import Tensor

__all__ = ["as_examples", "as_radius", "like_input", "working"]

_HALF = (torch.float16, torch.bfloat16)


def working(x: Tensor) -> Tensor:
    """``x`` in the precision the arithmetic is done in: half precision is raised to float32."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"expected a torch tensor of shape (batch, ...), came {type(x).__name__}: "
            "convert it with torch.as_tensor"
        )
    if not x.is_floating_point():
        raise TypeError(
            f"expected a real floating-point tensor, came {x.dtype}: convert it with x.float()"
        )
    if x.ndim < 2:
        raise ValueError(
            f"expected examples of shape (batch, ...), came {tuple(x.shape)}: "
            "write x[None] for one example, x[:, None] for a batch of numbers"
        )
    return x.float() if x.dtype in _HALF else x


def as_examples(x: Tensor) -> Tensor:
    """``x`` checked and flattened to bk, in working precision."""
    x = working(x)
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def like_input(result: Tensor, x: Tensor) -> Tensor:
    """``result`` of :func:`as_examples` brought back to the shape and dtype of ``x``."""
    return result.reshape(x.shape).to(x.dtype)


def as_radius(radius: float | Tensor, x: Tensor, *, name: str = "radius") -> Tensor:
    """``radius``, one number or one for each example of ``x``, as a column b1 of its dtype."""
    values = radius if isinstance(radius, Tensor) else torch.tensor(radius, dtype=torch.float64)
    if values.shape not in ((), (x.shape[0],)):
        raise ValueError(
            f"expected {name} to be a number or a tensor of shape ({x.shape[0]},), one for each "
            f"example, came shape {tuple(values.shape)}: flatten it or pass one number"
        )
    # Asked before the values move: no device has to be waited for on account of a number.
    if not bool((values >= 0).all()):
        raise ValueError(
            f"expected {name} >= 0, came {values.min().item()}: "
            "pass zero or a positive number, not a negative one or NaN"
        )
    return values.to(x.dtype).to(x.device).expand(x.shape[0])[:, None]
