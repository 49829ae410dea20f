"""One rule per kind of layer: (layer, activations, output gradients) to per-example gradients.

A rule is a pure function; it returns a ``PerExample`` for each parameter that trains, by the
parameter's name in the layer. The first dimension of activations and output gradients is the
example. Layers are known by their ``forward``: a subclass that changes it has no rule here.

>>> import torch
>>> layer = torch.nn.Linear(3, 2)
>>> rule_for(layer)(layer, torch.ones(4, 3), torch.ones(4, 2))["weight"].squared_norms()
tensor([6., 6., 6., 6.])
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from strop.gradients.per_example import PerExample
from strop.gradients.rules_convolution import convolution
from strop.gradients.rules_linear import embedding, linear
from strop.gradients.rules_normalisation import batch_norm, group_norm, layer_norm, rms_norm
from strop.support import InputError

Rule = Callable[[Any, Tensor, Tensor], dict[str, PerExample]]

_RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: linear,
    nn.Embedding: embedding,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    nn.Conv3d: convolution,
    nn.LayerNorm: layer_norm,
    nn.RMSNorm: rms_norm,
    nn.GroupNorm: group_norm,
    nn.BatchNorm1d: batch_norm,
    nn.BatchNorm2d: batch_norm,
    nn.BatchNorm3d: batch_norm,
}


def _find(layer: nn.Module) -> Rule | None:
    if hasattr(layer, "parametrizations"):
        return None
    for kind, rule in _RULES.items():
        if isinstance(layer, kind) and type(layer).forward is kind.forward:
            return rule
    return None


def has_rule(layer: nn.Module) -> bool:
    """Whether the layer's kind is known.

    >>> has_rule(nn.Conv2d(1, 1, 3)), has_rule(nn.GRU(2, 2))
    (True, False)
    """
    return _find(layer) is not None


def rule_for(layer: nn.Module) -> Rule:
    """The rule of a layer's kind; a kind without one is refused."""
    rule = _find(layer)
    if rule is None:
        known = ", ".join(kind.__name__ for kind in _RULES)
        raise InputError(f"expected one of {known}, but came a {type(layer).__name__}")
    return rule
