"""Layers without a rule: run again, one example at a time, by ``torch.func``."""

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from strop.gradients.per_example import Dense, PerExample
from strop.support import InputError

_log = logging.getLogger("strop.gradients")


@cache
def _say_once(kind: str) -> None:
    _log.warning(
        "%s has no rule of its own: its per-example gradients are computed by torch.func and held "
        "in memory, one per example",
        kind,
    )


def by_examples(
    name: str,
    layer: nn.Module,
    arguments: Sequence[Any],
    keywords: dict[str, Any],
    outputs: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    *,
    examples: int,
) -> dict[str, PerExample]:
    """Per-example gradients of every parameter in ``layer``, by a vector-Jacobian product each.

    Tensors among the arguments whose first dimension is the number of examples are split along it;
    everything else is given to each example whole. The layer must do again what it did: where the
    outputs differ (dropout in training), it is refused.

    Args:
        name: how to call the layer in errors.
        layer: the module, with the parameters it had when it was called.
        arguments, keywords: what it was called with.
        outputs, gradients: all tensors that it returned, and the gradient for each or None.
        examples: number of examples.
    """
    _say_once(type(layer).__name__)
    reached = [index for index, gradient in enumerate(gradients) if gradient is not None]
    for index in reached:
        if outputs[index].ndim == 0 or len(outputs[index]) != examples:
            raise InputError(
                f"expected output {index} of the layer {name!r} ({type(layer).__name__}) to have "
                f"the {examples} examples as its first dimension, but its shape is "
                f"{tuple(outputs[index].shape)}: use batch_first=True, or move that dimension"
            )
    trained = {key: p.detach() for key, p in layer.named_parameters() if p.requires_grad}
    places = [*range(len(arguments)), *keywords]
    values = [*arguments, *keywords.values()]
    split = {
        place: value
        for place, value in zip(places, values, strict=True)
        if isinstance(value, Tensor) and value.ndim > 0 and len(value) == examples
    }

    def one(mapped: dict[Any, Tensor], pulled: list[Tensor]) -> tuple[dict[str, Tensor], Any]:
        def call(parameters: dict[str, Tensor]) -> list[Tensor]:
            single = {place: value.unsqueeze(0) for place, value in mapped.items()}
            positional = [single.get(place, value) for place, value in enumerate(arguments)]
            named = {key: single.get(key, value) for key, value in keywords.items()}
            output = torch.func.functional_call(layer, parameters, tuple(positional), named)
            found = tensors_of(output)
            return [found[index] for index in reached]

        again, pull = torch.func.vjp(call, trained)[:2]
        [parameters] = pull([gradient.unsqueeze(0) for gradient in pulled])
        return parameters, [output.squeeze(0) for output in again]

    pulled = [gradient for gradient in gradients if gradient is not None]
    try:
        found, again = torch.func.vmap(one, randomness="same")(split, pulled)
    except RuntimeError:  # not every operation can be mapped over: the same function in a loop
        each = [
            one({place: value[n] for place, value in split.items()}, [d[n] for d in pulled])
            for n in range(examples)
        ]
        found = {key: torch.stack([gradients[key] for gradients, _ in each]) for key in trained}
        again = [torch.stack(parts) for parts in zip(*(out for _, out in each), strict=True)]
    for index, output in zip(reached, again, strict=True):
        tolerance = 10 * torch.finfo(output.dtype).eps ** 0.5
        if not torch.allclose(output, outputs[index], rtol=tolerance, atol=tolerance):
            raise InputError(
                f"the layer {name!r} ({type(layer).__name__}), run again on single examples, did "
                "not give what it gave on the batch: call eval() on it if it draws random numbers "
                "(dropout), or replace what mixes examples"
            )
    return {key: Dense(values) for key, values in found.items()}


def tensors_of(output: Any) -> list[Tensor]:
    """The tensors in what a module returned, in order.

    >>> len(tensors_of((torch.ones(1), {"hidden": torch.ones(2)}, None)))
    2
    """
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, dict):
        output = list(output.values())
    if not isinstance(output, list | tuple):
        return []
    return [tensor for part in output for tensor in tensors_of(part)]
