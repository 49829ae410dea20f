"""A running mean of the weights, kept beside those that are trained."""

from copy import deepcopy
from typing import cast

import torch
from torch import Tensor, nn

__all__ = ["WeightAverage"]


class WeightAverage(nn.Module):
    """``online`` in training mode and its running mean ``average`` in evaluation mode.

    After every step  average <- d average + (1 - d) online,  d = min(decay, (1 + t) / (10 + t)):
    early on the mean is short, so that it forgets the initial weights. Both are in the state, so
    a checkpoint holds both.

    >>> model = WeightAverage(nn.Linear(1, 1, bias=False), decay=0.9)
    >>> _ = model.online.weight.data.fill_(1.0), model.average.weight.data.fill_(0.0)
    >>> model.update(step=0)
    >>> round(float(model.average.weight), 3)
    0.9
    """

    def __init__(self, network: nn.Module, *, decay: float) -> None:
        super().__init__()
        self.online, self.decay = network, decay
        self.average = deepcopy(network).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.online(x) if self.training else self.average(x))

    @torch.no_grad()
    def update(self, *, step: int) -> None:
        """Move the mean towards the weights as they are after step number ``step``."""
        decay = min(self.decay, (1 + step) / (10 + step))
        means, values = self.average.state_dict(), self.online.state_dict()
        floating = [name for name, mean in means.items() if mean.is_floating_point()]
        torch._foreach_lerp_([means[n] for n in floating], [values[n] for n in floating], 1 - decay)
        for name in means.keys() - set(floating):
            means[name].copy_(values[name])
