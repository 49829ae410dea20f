"""Whole networks against one backward pass per example; what cannot be right is refused."""

import logging
import weakref

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, scaled_dot_product_attention

from gradients.gradient_oracle import agree, network_gradients
from strop.gradients import (
    capture,
    gradient_gram,
    gradient_inner,
    gradient_sketch,
    per_example_gradients,
    per_example_norms,
    random_projection,
    rules_fallback,
)
from strop.gradients.network import each_parameter
from strop.gradients.per_example import Outer
from strop.models import cifar_resnet
from strop.support import InputError


def classification(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """One loss per example; token by token outputs are averaged within an example."""
    logits, labels = model(batch[0]), batch[1]
    losses = cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), reduction="none"
    )
    return losses.reshape(len(labels), -1).mean(1)


class Attention(nn.Module):
    """Heads written out by hand, as most transformers have them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.query_key_value(x).unflatten(-1, (3, 2, -1)).movedim(-3, 0)
        mixed = scaled_dot_product_attention(q.mT, k.mT, v.mT, is_causal=False).mT
        return self.out(mixed.flatten(-2))


class Transformer(nn.Module):
    def __init__(self, *, attention: nn.Module, tied: bool = False) -> None:
        super().__init__()
        width = 8
        self.tokens, self.positions = nn.Embedding(11, width), nn.Embedding(6, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.RMSNorm(width)
        self.attention = attention
        self.up, self.down = nn.Linear(width, 12), nn.Linear(12, width)
        self.head = nn.Linear(width, 11, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1]).expand_as(tokens)
        x = self.tokens(tokens) + self.positions(positions)
        h = self.norm1(x)
        if isinstance(self.attention, nn.MultiheadAttention):
            x = x + self.attention(h, h, h, need_weights=False)[0]
        else:
            x = x + self.attention(h)
        return self.head(x + self.down(torch.relu(self.up(self.norm2(x)))))


class Twice(nn.Module):
    """One convolution and one linear layer, each used twice, on different sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(2, 2, 3, padding=1), nn.Linear(2, 2)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.conv(torch.relu(self.conv(images))[..., ::2, ::2])
        return self.fc(torch.tanh(self.fc(hidden.mean((2, 3)))))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.fc = nn.GRU(3, 4, batch_first=True), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.gru(x)[0][:, -1])


class Scaled(nn.Module):
    """A parameter of its own: known to no rule."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale.exp() * x + self.shift


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, 7), nn.ReLU(inplace=True), nn.Linear(7, 7), nn.Tanh(), nn.Linear(7, 5)
    )


def multihead() -> nn.Module:
    return nn.MultiheadAttention(8, 2, batch_first=True)


def resnet8(normalisation: str) -> nn.Module:
    return cifar_resnet(8, normalisation=normalisation)


def images(n: int, channels: int, size: int, classes: int) -> tuple[Tensor, Tensor]:
    return torch.randn(n, channels, size, size), torch.randint(classes, (n,))


def sentences(n: int, length: int) -> tuple[Tensor, Tensor]:
    return torch.randint(11, (n, length)), torch.randint(11, (n, length))


NETWORKS = {
    "mlp": (mlp, lambda: (torch.randn(5, 6), torch.randint(5, (5,)))),
    "one example": (mlp, lambda: (torch.randn(1, 6), torch.randint(5, (1,)))),
    "resnet8": (lambda: resnet8("none"), lambda: images(3, 3, 16, 10)),
    "resnet8 with group norm": (lambda: resnet8("group"), lambda: images(3, 3, 16, 10)),
    "resnet8 with batch norm": (lambda: resnet8("batch").eval(), lambda: images(3, 3, 16, 10)),
    "transformer": (lambda: Transformer(attention=Attention(8)), lambda: sentences(4, 6)),
    "tied transformer": (
        lambda: Transformer(attention=Attention(8), tied=True),
        lambda: sentences(4, 5),
    ),
    "multi-head attention": (lambda: Transformer(attention=multihead()), lambda: sentences(3, 5)),
    "shared layers": (Twice, lambda: images(4, 2, 6, 2)),
    "recurrent": (Recurrent, lambda: (torch.randn(4, 6, 3), torch.randint(5, (4,)))),
    "own parameters": (
        lambda: nn.Sequential(nn.Linear(4, 3), Scaled(), nn.Linear(3, 5)),
        lambda: (torch.randn(4, 4), torch.randint(5, (4,))),
    ),
    "parametrised": (
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 5))),
        lambda: (torch.randn(4, 4), torch.randint(5, (4,))),
    ),
}


@pytest.fixture(params=NETWORKS)
def network(request):
    torch.manual_seed(0)
    build, sample = NETWORKS[request.param]
    model = build().double()
    inputs, labels = sample()
    return model, (inputs.double() if inputs.is_floating_point() else inputs, labels)


def oracle(model: nn.Module, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    def loss(model: nn.Module, n: int) -> Tensor:
        return classification(model, (batch[0][n : n + 1], batch[1][n : n + 1]))[0]

    return network_gradients(model, loss, examples=len(batch[1]))


def test_networks_agree_with_one_backward_per_example(network):
    model, batch = network
    expected = oracle(model, batch)
    found = per_example_gradients(model, classification, batch)
    assert found.keys() == expected.keys()
    for name, part in found.items():
        agree(part, expected[name])
    flat = torch.cat([values.reshape(len(values), -1) for values in expected.values()], dim=1)
    torch.testing.assert_close(per_example_norms(model, classification, batch), flat.norm(dim=1))
    torch.testing.assert_close(gradient_gram(model, classification, batch), flat @ flat.T)
    inner = gradient_inner(model, classification, batch, centres=expected)
    torch.testing.assert_close(inner, flat @ flat.T)


def test_sketches_project_the_gradient_on_fixed_directions(network, generator):
    model, batch = network
    projection = random_projection(model, size=5, generator=generator)
    expected = 0
    for name, values in oracle(model, batch).items():
        left, right = projection.factors[name]
        directions = (left.unsqueeze(2) * right.unsqueeze(1)).flatten(1)
        expected = expected + values.reshape(len(values), -1) @ directions.T / 5**0.5
    found = gradient_sketch(model, classification, batch, projection=projection, check=False)
    torch.testing.assert_close(found, expected)


def test_long_sketches_keep_inner_products(generator):
    torch.manual_seed(0)
    model, batch = mlp(), (torch.randn(6, 6), torch.randint(5, (6,)))
    projection = random_projection(model, size=20000, generator=generator)
    sketch = gradient_sketch(model, classification, batch, projection=projection)
    gram = gradient_gram(model, classification, batch)
    # E (l^T g r)^4 <= 9 ||g||^4 for signs l and r: a standard error of at most 3 / sqrt(size).
    tolerance = 5 * 3 / 20000**0.5 * gram.diagonal().max()
    assert (sketch @ sketch.T - gram).abs().max() < tolerance


def test_nothing_is_left_behind(network):
    model, batch = network
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    per_example_norms(model, classification, batch)
    assert all(parameter.grad is None for parameter in model.parameters())
    for name, module in model.named_modules():
        assert set(vars(module)) == before[name]
        assert not module._forward_hooks
        assert not module._forward_hooks_with_kwargs


def test_hooks_go_when_the_block_raises():
    model = mlp()

    def interrupted() -> None:
        with capture(model):
            assert all(layer._forward_hooks for layer in (model[0], model[2], model[4]))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert not any(module._forward_hooks for module in model.modules())


def test_the_tape_gives_the_gradient_of_the_weight():
    """Also before an in-place ReLU: the gradient kept is that of the layer's own output."""
    torch.manual_seed(0)
    model, x = mlp(), torch.randn(5, 6)
    with capture(model) as tape:
        model(x).square().sum().backward()
    assert list(tape) == ["0", "2", "4"]
    for name in tape:
        [use] = tape[name]
        expected = model.get_submodule(name).weight.grad
        torch.testing.assert_close(use.output_gradients.T @ use.activations, expected)


def test_an_input_written_over_is_refused():
    model = nn.Linear(3, 2)
    x = torch.ones(4, 3)
    with capture(model) as tape:
        loss = model(x).sum()
        x.zero_()
    with pytest.raises(InputError, match="changed in place"):
        _ = tape[""][0].activations
    assert loss.requires_grad


def test_the_fallback_is_said_once(caplog):
    rules_fallback._say_once.cache_clear()
    model, batch = Recurrent(), (torch.randn(2, 3, 3), torch.tensor([0, 1]))
    with caplog.at_level(logging.WARNING, logger="strop.gradients"):
        per_example_norms(model, classification, batch)
        per_example_norms(model, classification, batch)
    assert [record.getMessage().split()[0] for record in caplog.records] == ["GRU"]


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        return linear(self.tokens(tokens), self.tokens.weight)


class Positions(nn.Module):
    """Positions without the dimension of examples; as many positions as examples."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(11, 4), nn.Embedding(9, 4)
        self.head = nn.Linear(4, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1])))


def in_batch_negatives(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    embedded = model(batch[0])
    return cross_entropy(embedded @ embedded.T, torch.arange(len(embedded)), reduction="none")


def mean(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return cross_entropy(model(batch[0]), batch[1])


def dropout_attention() -> nn.Module:
    return Transformer(attention=nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True))


@pytest.mark.parametrize(
    ("build", "sample", "loss", "remedy"),
    [
        (lambda: resnet8("batch"), lambda: images(3, 3, 16, 10), classification, "use GroupNorm"),
        (mlp, NETWORKS["mlp"][1], mean, 'reduction="none"'),
        (mlp, NETWORKS["mlp"][1], in_batch_negatives, "examples mix"),
        (Positions, lambda: sentences(4, 4), classification, "examples mix"),
        (Positions, lambda: sentences(4, 3), classification, "expand what is common"),
        (Functional, lambda: sentences(4, 3), classification, "call the layer"),
        (dropout_attention, lambda: sentences(4, 3), classification, r"call eval\(\)"),
        (lambda: torch.compile(mlp()), NETWORKS["mlp"][1], classification, "torch.compile"),
        (lambda: mlp().requires_grad_(False), NETWORKS["mlp"][1], classification, "trainable"),
    ],
)
def test_what_cannot_be_right_is_refused_with_the_remedy(build, sample, loss, remedy):
    torch.manual_seed(0)
    with pytest.raises(InputError, match=remedy):
        per_example_norms(build(), loss, sample())


def test_frozen_layers_and_sparse_tables_are_as_autograd_has_them():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(7, 4, sparse=True), nn.Linear(4, 4), nn.Linear(4, 5))
    model.double()[1].requires_grad_(False)
    batch = (torch.randint(7, (4, 3)), torch.randint(5, (4, 3)))
    found = per_example_gradients(model, classification, batch)
    assert list(found) == ["0.weight", "2.weight", "2.bias"]
    for name, expected in oracle(model, batch).items():
        agree(found[name], expected.to_dense())


def test_autocast_is_as_near_as_its_precision():
    torch.manual_seed(0)
    model, batch = mlp(), (torch.randn(5, 6), torch.randint(5, (5,)))
    exact = per_example_norms(model, classification, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        near = per_example_norms(model, classification, batch)
    torch.testing.assert_close(near, exact, rtol=0.05, atol=0.0)


def test_a_projection_for_another_model_is_refused(generator):
    projection = random_projection(nn.Linear(6, 2), size=3, generator=generator)
    with pytest.raises(InputError, match="another model"):
        gradient_sketch(mlp(), classification, NETWORKS["mlp"][1](), projection=projection)


def test_what_a_layer_was_given_goes_when_its_turn_is_over():
    """Else a sum over the layers would hold all their activations and gradients at once."""
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    batch = torch.randn(3, 4)
    seen = []
    for _, part in each_parameter(model, lambda m, x: m(x).sum(1), batch, check=False):
        if isinstance(part, Outer):
            assert all(gradients() is None for gradients in seen)
            seen.append(weakref.ref(part.d))
    assert len(seen) == 4


def test_parts_come_by_name_in_the_order_of_the_model():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model.append(model[0])
    found = per_example_gradients(model, lambda m, x: m(x).sum(1), torch.randn(3, 4))
    assert list(found) == [name for name, _ in model.named_parameters()]
