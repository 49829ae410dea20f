"""Small networks: multilayer perceptrons, plain convolutional nets, Random Features."""

import re
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from strop.models.layers import initialise
from strop.support import InputError


def mlp(
    widths: Sequence[int] = (784, 1024, 1024, 10),
    *,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """Linear layers of these widths with ReLU between them; images are flattened first.

    The default is the MNIST model of thesis chapter 4 (appendix A.3.1), which has no dropout.

    >>> sum(parameter.numel() for parameter in mlp().parameters())
    1863690
    """
    if len(widths) < 2 or min(widths) < 1 or not 0 <= dropout < 1:
        raise InputError(
            "expected at least two positive widths, inputs first, and a dropout from 0 to below 1, "
            f"but came widths {list(widths)} and dropout {dropout}"
        )
    layers = ["Flatten"]
    for inputs, outputs in pairwise(widths):
        layers += [f"Linear({inputs},{outputs})", "ReLU"]
        if dropout:
            layers.append(f"Dropout({dropout})")
    while not layers[-1].startswith("Linear"):
        layers.pop()
    return sequential(" ".join(layers), generator=generator)


def small_cnn(
    *,
    classes: int = 10,
    channels: int = 3,
    size: int = 32,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """Two strided convolutions and two linear layers, with neither normalisation nor pooling.

    >>> small_cnn()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """
    if size < 4 or size % 4:
        raise InputError(f"expected images whose side is a multiple of 4, but came {size}")
    hidden = 32 * (size // 4) ** 2
    return sequential(
        f"Conv({channels},16,4,2,1) ReLU Conv(16,32,4,2,1) ReLU Flatten "
        f"Linear({hidden},100) ReLU Linear(100,{classes})",
        generator=generator,
    )


def sequential(text: str, *, generator: torch.Generator | None = None) -> nn.Sequential:
    """A chain of layers from its description, and :func:`describe_sequential` the way back.

    Layers: ``Conv(in,out,kernel,stride,padding)``, ``Linear(in,out)``, ``MaxPool(kernel)``,
    ``Dropout(p)``, ``ReLU``, ``Flatten``.

    >>> model = sequential("Flatten Linear(4,3) ReLU Linear(3,2)")
    >>> describe_sequential(model)
    'Flatten Linear(4,3) ReLU Linear(3,2)'
    """
    words = text.split()
    if not words:
        raise InputError("expected a chain of layers, but its description is empty")
    model = nn.Sequential(*(_layer(word) for word in words))
    initialise(model, generator=generator)
    return model


def describe_sequential(model: nn.Sequential) -> str:
    """The description of a chain of layers that :func:`sequential` builds again."""
    return " ".join(_describe(layer) for layer in model)


class RandomFeatures(nn.Module):
    """f(x) = ReLU(x W) theta with a fixed random W: only theta is trained.

    The features are the columns of W in R^(inputs x hidden), drawn from N(0, I) and scaled to l2
    norm 1. W is a buffer, so optimizers and gradient estimators see the second layer alone. Thesis
    section 4.4.2: one output, no bias, cross-entropy of labels in {-1, +1}, which is the mean of
    ``softplus(-y f(x))``.

    Args:
        inputs: dimension of x.
        hidden: number of random features, the thesis's h_s.
        outputs: 1 for a single logit, 2 or more for ``torch.nn.functional.cross_entropy``.
        bias: whether the second layer has a bias.
        generator: where the features and the initial second layer come from.

    >>> model = RandomFeatures(inputs=5, hidden=7)
    >>> [(name, *parameter.shape) for name, parameter in model.named_parameters()]
    [('output.weight', 1, 7)]
    """

    features: Tensor

    def __init__(
        self,
        *,
        inputs: int,
        hidden: int,
        outputs: int = 1,
        bias: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if min(inputs, hidden, outputs) < 1:
            raise InputError(
                "expected positive numbers of inputs, features and outputs, "
                f"but came {inputs}, {hidden} and {outputs}"
            )
        features = torch.randn(inputs, hidden, generator=generator)
        self.register_buffer("features", features / features.norm(dim=0))
        self.output = nn.Linear(hidden, outputs, bias=bias)
        initialise(self, generator=generator)

    def forward(self, points: Tensor) -> Tensor:
        """(n, inputs) points to (n, outputs) logits."""
        return self.output(torch.relu(points @ self.features))


def _layer(word: str) -> nn.Module:
    match = re.fullmatch(r"(\w+)(?:\(([\d.,]+)\))?", word)
    name, values = (match[1], match[2].split(",") if match[2] else []) if match else ("", [])
    try:
        if name == "Dropout" and len(values) == 1:
            return nn.Dropout(float(values[0]))
        numbers = [int(value) for value in values]
    except ValueError as error:
        raise _unknown(word) from error
    if name == "Conv" and len(numbers) == 5:
        inputs, outputs, kernel, stride, padding = numbers
        return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding)
    if name == "Linear" and len(numbers) == 2:
        return nn.Linear(numbers[0], numbers[1])
    if name == "MaxPool" and len(numbers) == 1:
        return nn.MaxPool2d(numbers[0])
    if name == "ReLU" and not numbers:
        return nn.ReLU()
    if name == "Flatten" and not numbers:
        return nn.Flatten()
    raise _unknown(word)


def _unknown(word: str) -> InputError:
    return InputError(
        "expected layers of the kinds Conv(in,out,kernel,stride,padding), Linear(in,out), "
        f"MaxPool(kernel), Dropout(p), ReLU and Flatten, but came {word!r}"
    )


def _describe(layer: nn.Module) -> str:
    if isinstance(layer, nn.Conv2d):
        sides = (layer.kernel_size[0], layer.stride[0], int(layer.padding[0]))
        return f"Conv({layer.in_channels},{layer.out_channels},{','.join(map(str, sides))})"
    if isinstance(layer, nn.Linear):
        return f"Linear({layer.in_features},{layer.out_features})"
    if isinstance(layer, nn.MaxPool2d):
        return f"MaxPool({layer.kernel_size})"
    if isinstance(layer, nn.Dropout):
        return f"Dropout({layer.p})"
    if isinstance(layer, (nn.ReLU, nn.Flatten)):
        return type(layer).__name__
    raise InputError(
        f"expected layers that a description can name, but came {type(layer).__name__}"
    )
