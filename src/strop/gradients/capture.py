"""What went into each layer and what gradient came back, for one backward pass.

>>> import torch
>>> model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
>>> with capture(model) as tape:
...     model(torch.ones(4, 3)).sum().backward()
>>> list(tape), tape["0"][0].activations.shape, tape["2"][0].output_gradients.shape
(['0', '2'], torch.Size([4, 3]), torch.Size([4, 1]))
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from strop.gradients.rules import has_rule
from strop.gradients.rules_fallback import tensors_of
from strop.support import InputError


@dataclass
class Use:
    """One call of one layer.

    Attributes:
        name: the layer's name in the model.
        layer: the layer.
        arguments, keywords: what it was called with, tensors detached.
        outputs: the tensors that it returned, detached, copied where the layer has no rule.
        gradients: the gradient that came back for each output; None where none came.
        edges: each output's place in the graph, before any later change in place; None where it
            needs no gradient.
        versions: the tensors among the inputs, with their versions when the layer was called.
    """

    name: str
    layer: nn.Module
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    outputs: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor | None] = field(default_factory=list)
    edges: list[GradientEdge | None] = field(default_factory=list)
    versions: list[tuple[Tensor, int]] = field(default_factory=list)

    @property
    def activations(self) -> Tensor:
        """The layer's first input, as it was when the layer was called."""
        self.check_unchanged()
        inputs = [x for x in (*self.arguments, *self.keywords.values()) if isinstance(x, Tensor)]
        if not inputs:
            raise InputError(f"expected the layer {self.name!r} to be given a tensor, it was not")
        return inputs[0]

    @property
    def output_gradients(self) -> Tensor:
        """The gradient with respect to the layer's first output."""
        if not self.gradients or self.gradients[0] is None:
            raise InputError(
                f"no gradient came back to the layer {self.name!r}: call backward inside the "
                "capture, on a loss that depends on this layer"
            )
        return self.gradients[0]

    @property
    def reached(self) -> bool:
        """Whether the backward pass came through this call."""
        return any(gradient is not None for gradient in self.gradients)

    def check_unchanged(self) -> None:
        """Refuse inputs that were written over since the call."""
        if any(tensor._version != version for tensor, version in self.versions):
            raise InputError(
                f"the input of the layer {self.name!r} was changed in place after the call, so "
                "what the layer saw is lost: use the out-of-place operation there"
            )


class Tape(Mapping[str, tuple[Use, ...]]):
    """Calls of layers by name, in the order of the first call; a shared layer has several."""

    def __init__(self) -> None:
        self.uses: list[Use] = []

    def __getitem__(self, name: str) -> tuple[Use, ...]:
        found = tuple(use for use in self.uses if use.name == name)
        if not found:
            raise KeyError(f"no layer {name!r} was called; these were: {', '.join(self)}")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(use.name for use in self.uses))

    def __len__(self) -> int:
        return len({use.name for use in self.uses})


def trainable_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The modules whose calls explain all parameters that train.

    A layer with a rule stands for itself; any other module with parameters of its own stands for
    everything inside it.
    """
    layers: dict[str, nn.Module] = {}
    seen: set[nn.Module] = set()

    def visit(name: str, module: nn.Module) -> None:
        if module in seen:
            return
        seen.add(module)
        own = next(module.parameters(recurse=False), None) is not None
        if own or hasattr(module, "parametrizations"):
            if any(parameter.requires_grad for parameter in module.parameters()):
                layers[name] = module
            return
        for child, submodule in module.named_children():
            visit(f"{name}.{child}" if name else child, submodule)

    visit("", model)
    return layers


@contextmanager
def capture(model: nn.Module, *, keep_outputs: bool = True) -> Iterator[Tape]:
    """Record each trainable layer's activations and output gradients, then leave no trace.

    Runs of the model inside the block are recorded; gradients are those of the last backward pass
    through each call. Hooks go when the block ends, by an exception too; modules get no attributes.

    Args:
        model: any module; layers are named as in ``model.named_modules()``.
        keep_outputs: False lets go of the outputs of layers with a rule, which does not need them.
    """
    tape = Tape()
    with ExitStack() as hooks:

        def record(name: str, layer: nn.Module) -> Any:
            def hook(_: nn.Module, arguments: Any, keywords: Any, output: Any) -> None:
                use = Use(
                    name=name,
                    layer=layer,
                    arguments=tuple(_detached(x) for x in arguments),
                    keywords={key: _detached(x) for key, x in keywords.items()},
                )
                seen = (*use.arguments, *use.keywords.values())
                use.versions = [(x, x._version) for x in seen if isinstance(x, Tensor)]
                for index, tensor in enumerate(tensors_of(output)):
                    if not has_rule(layer):
                        use.outputs.append(tensor.detach().clone())
                    elif keep_outputs:
                        use.outputs.append(tensor.detach())
                    use.gradients.append(None)
                    use.edges.append(get_gradient_edge(tensor) if tensor.requires_grad else None)
                    if tensor.requires_grad:
                        handle = tensor.register_hook(_keep(use, index))
                        hooks.callback(handle.remove)
                if any(edge is not None for edge in use.edges):
                    tape.uses.append(use)

            return hook

        for name, layer in trainable_layers(model).items():
            handle = layer.register_forward_hook(record(name, layer), with_kwargs=True)
            hooks.callback(handle.remove)
        yield tape


def _keep(use: Use, index: int) -> Any:
    def hook(gradient: Tensor) -> None:
        use.gradients[index] = gradient.detach()

    return hook


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value
