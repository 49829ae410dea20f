"""Per-example gradients of whole networks: norms, inner products and sketches, summed over layers.

>>> model = torch.nn.Linear(2, 1, bias=False)
>>> batch = torch.tensor([[3.0, 4.0], [0.0, 1.0]])
>>> losses = lambda model, batch: model(batch).squeeze(1)
>>> per_example_norms(model, losses, batch)
tensor([5., 1.])
>>> gradient_gram(model, losses, batch)
tensor([[25.,  4.],
        [ 4.,  1.]])
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from strop.gradients.capture import Tape, Use, capture
from strop.gradients.passes import LossFunction, check_losses
from strop.gradients.per_example import PerExample, add, matrix_shape
from strop.gradients.rules import has_rule, rule_for
from strop.gradients.rules_fallback import by_examples
from strop.support import InputError


def per_example_gradients(
    model: nn.Module, loss_fn: LossFunction, batch: Any, *, check: bool = True
) -> dict[str, PerExample]:
    """Each example's gradient, in factors, by parameter name; parameters without gradient are out.

    The gradients of parameters are not computed and ``.grad`` is not touched: one backward pass
    reaches the outputs of layers, and the layers' rules do the rest.

    Args:
        model: any module; frozen parameters are left out. Train-mode batch norm is refused.
        loss_fn: ``loss_fn(model, batch)`` with one loss per example.
        batch: whatever ``loss_fn`` takes; examples lie along the first dimension.
        check: also take the first example's gradient by plain autograd, and refuse a model or a
            loss in which examples mix, or a parameter is used outside its layer. It costs one more
            backward pass: turn it off in a loop, once a first batch has passed.
    """
    found = dict(each_parameter(model, loss_fn, batch, check=check))
    return {name: found[name] for name, _ in model.named_parameters() if name in found}


def per_example_norms(
    model: nn.Module, loss_fn: LossFunction, batch: Any, *, check: bool = True
) -> Tensor:
    """``||g_n||`` over all trainable parameters, (n,). Arguments: see ``per_example_gradients``."""
    found = each_parameter(model, loss_fn, batch, check=check)
    return _total(part.squared_norms() for _, part in found).clamp_min(0).sqrt()


def gradient_gram(
    model: nn.Module, loss_fn: LossFunction, batch: Any, *, check: bool = True
) -> Tensor:
    """``<g_n, g_m>`` over all trainable parameters, (n, n)."""
    found = each_parameter(model, loss_fn, batch, check=check)
    return _total(part.gram() for _, part in found)


def gradient_inner(
    model: nn.Module,
    loss_fn: LossFunction,
    batch: Any,
    *,
    centres: Mapping[str, Tensor],
    check: bool = True,
) -> Tensor:
    """``<C_k, g_n>``, (n, k), for centres (k, *shape) by parameter name; absent ones are 0."""
    unknown = sorted(set(centres) - {name for name, _ in model.named_parameters()})
    if unknown:
        raise InputError(f"expected centres by parameter name, but the model has no {unknown}")
    found = each_parameter(model, loss_fn, batch, check=check)
    return _total(part.inner(centres[key]) for key, part in found if key in centres)


@dataclass(frozen=True)
class Projection:
    """Random directions ``l_k r_k^T / sqrt(size)`` for each parameter, the same for every batch.

    Attributes:
        size: number of directions.
        factors: (l, r) by parameter name, random signs of shapes (size, rows) and (size, columns).
    """

    size: int
    factors: dict[str, tuple[Tensor, Tensor]]


def random_projection(model: nn.Module, *, size: int, generator: torch.Generator) -> Projection:
    """Directions for ``gradient_sketch``: unbiased, ``E <s_n, s_m> = <g_n, g_m>``.

    Args:
        model: gives the names, shapes, devices and types of parameters.
        size: length of a sketch.
        generator: where the signs come from, on its own device.
    """
    if size < 1:
        raise InputError(f"expected a positive size of the sketch, but came {size}")

    def signs(count: int, like: Tensor) -> Tensor:
        bits = torch.randint(2, (size, count), generator=generator, device=generator.device)
        half = like.dtype in (torch.float16, torch.bfloat16)
        return (2 * bits - 1).to(like.device, torch.float32 if half else like.dtype)

    factors = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            rows, columns = matrix_shape(parameter.shape)
            right = signs(columns, parameter) if columns > 1 else parameter.new_ones(size, 1)
            factors[name] = (signs(rows, parameter), right)
    return Projection(size=size, factors=factors)


def gradient_sketch(
    model: nn.Module,
    loss_fn: LossFunction,
    batch: Any,
    *,
    projection: Projection,
    check: bool = True,
) -> Tensor:
    """Each example's gradient along random directions, (n, size): distances are nearly kept."""
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    absent = sorted(trained - set(projection.factors))
    if absent:
        raise InputError(f"the projection was made for another model: it has no {absent}")
    found = each_parameter(model, loss_fn, batch, check=check)
    parts = (part.inner_rank_one(*projection.factors[key]) for key, part in found)
    return _total(parts) / projection.size**0.5


def each_parameter(
    model: nn.Module, loss_fn: LossFunction, batch: Any, *, check: bool
) -> Iterator[tuple[str, PerExample]]:
    """``per_example_gradients`` one at a time; what a layer was given goes when its turn is over.

    Shallow layers, whose activations are the largest as a rule, come first: a sum over parameters
    then needs little more memory than the backward pass itself.
    """
    _refuse_models(model)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with torch.enable_grad(), capture(model, keep_outputs=False) as tape:
        losses = loss_fn(model, batch)
        check_losses(losses)
        outputs = [(use, i) for use in tape.uses for i, e in enumerate(use.edges) if e is not None]
        edges = [use.edges[index] for use, index in outputs]
        first: list[Tensor | None] = []
        if check:
            wanted = [*edges, *parameters.values()]
            first = list(_gradients(losses[0], wanted, keep=bool(edges)))
        pulled = list(_gradients(losses.sum(), edges, keep=False))
    for use, index in outputs:
        use.gradients[index] = pulled.pop(0)
    examples = len(losses)
    del losses
    if not check:
        del outputs
        yield from _by_parameter(model, tape, examples=examples)
        return
    _refuse_mixing(outputs, first[: len(outputs)], examples=examples)
    dtypes = {g.dtype for use in tape.uses for g in use.gradients if g is not None}
    found = dict(_by_parameter(model, tape, examples=examples))
    _refuse_hidden_uses(parameters, found, first[len(outputs) :], dtypes)
    yield from found.items()


def _by_parameter(
    model: nn.Module, tape: Tape, *, examples: int
) -> Iterator[tuple[str, PerExample]]:
    """Parameters in the order of their layers, tied ones last; empties the tape."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    tape.uses = [use for use in tape.uses if use.reached]
    counts = Counter(
        names[id(parameter)] for use in tape.uses for parameter in use.layer.parameters()
    )
    tied: dict[str, list[PerExample]] = {}
    while tape.uses:
        use = tape.uses.pop(0)
        for key, part in _apply(use, examples).items():
            name = names[id(use.layer.get_parameter(key))]
            if counts[name] == 1:
                yield name, part
            else:
                tied.setdefault(name, []).append(part)
    for name, parts in tied.items():
        yield name, add(parts)


def _apply(use: Use, examples: int) -> dict[str, PerExample]:
    use.check_unchanged()
    if not has_rule(use.layer):
        called = (use.name, use.layer, use.arguments, use.keywords, use.outputs, use.gradients)
        return by_examples(*called, examples=examples)
    activations, gradients = use.activations, use.output_gradients
    if not (activations.ndim and len(activations) == len(gradients) == examples):
        raise InputError(
            f"expected the layer {use.name!r} to see the {examples} examples along its first "
            f"dimension, but its input is {tuple(activations.shape)}: give the examples that "
            "dimension (expand what is common to all, such as positions), one loss for each"
        )
    return rule_for(use.layer)(use.layer, activations, gradients)


def _gradients(loss: Tensor, inputs: list[Any], *, keep: bool) -> tuple[Tensor | None, ...]:
    if not inputs:
        return ()
    return torch.autograd.grad(loss, inputs, retain_graph=keep, allow_unused=True)


def _total(parts: Iterable[Tensor]) -> Tensor:
    total: Tensor | None = None
    for part in parts:
        total = part if total is None else total + part
    if total is None:
        raise InputError("no trainable parameter has a gradient: is the model frozen?")
    return total


def _refuse_models(model: nn.Module) -> None:
    if hasattr(model, "_orig_mod"):
        raise InputError(
            "a compiled model does not show its layers: give the model from before torch.compile, "
            "which shares its parameters"
        )
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
            raise InputError(
                f"the layer {name!r} ({type(module).__name__}) normalises by the batch, so an "
                "example has no gradient of its own: call eval() on it, or use GroupNorm"
            )


def _refuse_mixing(
    outputs: list[tuple[Use, int]], first: list[Tensor | None], *, examples: int
) -> None:
    for (use, _), gradient in zip(outputs, first, strict=True):
        if gradient is None or not gradient.ndim or len(gradient) != examples:
            continue  # the layer's rule says what is wrong with its shape
        others = gradient[1:]
        if (others.isfinite() & (others != 0)).any():  # 0 times a broken example's NaN is NaN
            raise InputError(
                f"the loss of the first example depends on what the layer {use.name!r} gave for "
                "other rows of the batch: examples mix (in-batch negatives, batch statistics, an "
                "input without the dimension of examples), so they have no gradients of their own"
            )


def _refuse_hidden_uses(
    parameters: Mapping[str, Tensor],
    found: Mapping[str, PerExample],
    first: list[Tensor | None],
    dtypes: set[torch.dtype],
) -> None:
    """Compare the first example's gradient with autograd's along one random direction."""
    precision = max((torch.finfo(dtype).eps for dtype in dtypes), default=0.0)
    generator = torch.Generator().manual_seed(0)
    for (name, parameter), gradient in zip(parameters.items(), first, strict=True):
        if gradient is None:
            continue
        gradient = gradient.to_dense() if gradient.is_sparse else gradient
        if not gradient.isfinite().all():
            continue
        part = found.get(name)
        rows, columns = matrix_shape(parameter.shape)
        dtype = torch.promote_types(gradient.dtype, torch.float32)
        left, right = (
            torch.randn(1, size, generator=generator, dtype=dtype).to(gradient.device)
            for size in (rows, columns)
        )
        expected = (left @ gradient.to(dtype).reshape(rows, columns) @ right.T).squeeze()
        came = part.inner_rank_one(left, right)[0, 0] if part is not None else 0 * expected
        scale = gradient.to(dtype).norm() * left.norm() * right.norm() / (rows * columns) ** 0.5
        if (came - expected).abs() > 10 * precision**0.5 * scale:
            raise InputError(
                f"the parameter {name!r} is used outside the call of its layer (a functional call "
                "on its weight?), so its per-example gradients cannot be seen: call the layer "
                "itself, or freeze the parameter"
            )
