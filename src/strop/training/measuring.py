"""Measuring never changes what is measured."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from strop.training.randomness import preserved_randomness


@contextmanager
def measuring(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; afterwards every module's mode and all randomness is as before.

    Inside, ``torch.enable_grad()`` gives gradients back to a measurement that needs them.

    >>> model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2).eval())
    >>> with measuring(model):
    ...     model.training
    False
    >>> [module.training for module in model.modules()]
    [True, True, False]
    """
    modes = [(module, module.training) for module in model.modules()]
    try:
        with preserved_randomness(), torch.no_grad():
            model.eval()
            yield
    finally:
        for module, mode in modes:
            module.training = mode
