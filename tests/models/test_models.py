"""Networks: their sizes, their shortcuts, what ties the examples of a batch together."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from strop.data import random_features_teacher, teacher_points
from strop.models import (
    Normalize,
    RandomFeatures,
    ResNet,
    WideResNet,
    cifar_resnet,
    describe_sequential,
    mlp,
    resnet18,
    sequential,
    small_cnn,
)
from strop.support import InputError


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def images(count: int, *shape: int) -> Tensor:
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("depth", "expected"),
    [(20, 0.27e6), (32, 0.46e6), (44, 0.66e6), (56, 0.85e6)],
)
def test_cifar_resnets_have_the_published_sizes(depth: int, expected: float) -> None:
    """He et al. (2016), table 6, to the two digits given there."""
    assert round(parameters(cifar_resnet(depth)) / 1e6, 2) == expected / 1e6


@pytest.mark.parametrize(
    ("normalisation", "expected"), [("none", 74_810), ("batch", 75_290), ("group", 75_290)]
)
def test_resnet8_has_about_75_thousand_parameters(normalisation: str, expected: int) -> None:
    stem, stages = 27 * 16, 9 * (16 * (16 + 16) + 32 * (16 + 32) + 64 * (32 + 64))
    norms = 2 * (16 + 2 * (16 + 32 + 64))
    assert expected == stem + stages + 65 * 10 + (norms if normalisation != "none" else 0)
    assert parameters(cifar_resnet(8, normalisation=normalisation)) == expected


def test_wide_resnet_28_10_has_the_published_size() -> None:
    with torch.device("meta"):
        assert parameters(WideResNet(depth=28, width=10)) == 36_479_194


@pytest.mark.parametrize("shortcut", ["pad-both", "pad-end"])
def test_padded_shortcuts_carry_every_second_pixel_and_zeros(shortcut: str) -> None:
    block = cifar_resnet(8, shortcut=shortcut).get_submodule("layer2.0")
    before = 8 if shortcut == "pad-both" else 0
    inputs = images(2, 16, 6, 6)
    carried = block.get_submodule("shortcut")(inputs)
    assert torch.equal(carried[:, before : before + 16], inputs[:, :, ::2, ::2])
    assert carried.shape == (2, 32, 3, 3)
    assert float(carried.sum()) == pytest.approx(float(inputs[:, :, ::2, ::2].sum()))


def test_a_block_is_what_its_formula_says() -> None:
    block = cifar_resnet(8, shortcut="conv").eval().get_submodule("layer2.0")
    x, part = images(2, 16, 6, 6), block.get_submodule
    hidden = torch.relu(part("bn1")(part("conv1")(x)))
    residual = part("bn2")(part("conv2")(hidden))
    shortcut = part("shortcut.1")(part("shortcut.0")(x))
    assert torch.equal(block(x), torch.relu(residual + shortcut))
    same = cifar_resnet(8).eval().get_submodule("layer1.0")
    part = same.get_submodule
    hidden = torch.relu(part("bn1")(part("conv1")(x)))
    assert torch.equal(same(x), torch.relu(part("bn2")(part("conv2")(hidden)) + x))


MAKERS: dict[str, Callable[[str], nn.Module]] = {
    "resnet": lambda normalisation: cifar_resnet(8, normalisation=normalisation),
    "conv shortcut": lambda normalisation: cifar_resnet(
        8, normalisation=normalisation, shortcut="conv"
    ),
    "wide": lambda normalisation: WideResNet(depth=10, width=1, normalisation=normalisation),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize("normalisation", ["batch", "group", "none"])
def test_only_batch_norm_ties_the_examples_of_a_batch_together(
    make: Callable[[str], nn.Module], normalisation: str
) -> None:
    model = make(normalisation).train()
    batch = images(4, 3, 32, 32)
    together = model(batch)
    alone = torch.cat([model(image[None]) for image in batch])
    assert torch.allclose(together, alone, atol=1e-4) == (normalisation != "batch")


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize("normalisation", ["batch", "group", "none"])
def test_a_fresh_network_neither_explodes_nor_dies(
    make: Callable[[str], nn.Module], normalisation: str
) -> None:
    logits = make(normalisation)(images(32, 3, 32, 32)).detach()
    assert 0.01 < float(logits.std()) < 30


def test_a_few_steps_learn_a_colour_without_normalisation() -> None:
    model = cifar_resnet(8, normalisation="none", generator=torch.Generator().manual_seed(0))
    labels = torch.arange(16) % 3
    inputs = images(16, 3, 32, 32) + nn.functional.one_hot(labels, 3)[:, :, None, None]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for _ in range(20):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.2 < losses[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda g: cifar_resnet(8, generator=g),
        lambda g: WideResNet(depth=10, width=1, generator=g),
        lambda g: mlp((5, 4, 3), generator=g),
        lambda g: small_cnn(generator=g),
        lambda g: RandomFeatures(inputs=5, hidden=4, generator=g),
    ],
)
def test_the_generator_alone_decides_the_weights(
    make: Callable[[torch.Generator], nn.Module],
) -> None:
    torch.manual_seed(1)
    one = make(torch.Generator().manual_seed(0)).state_dict()
    torch.manual_seed(2)
    same = make(torch.Generator().manual_seed(0)).state_dict()
    other = make(torch.Generator().manual_seed(1)).state_dict()
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_the_thesis_mlp_is_three_layers_with_relu_and_no_dropout() -> None:
    model = mlp()
    assert describe_sequential(model) == (
        "Flatten Linear(784,1024) ReLU Linear(1024,1024) ReLU Linear(1024,10)"
    )
    assert model(images(2, 1, 28, 28)).shape == (2, 10)
    dropped = describe_sequential(mlp((4, 3, 2), dropout=0.5))
    assert dropped == "Flatten Linear(4,3) ReLU Dropout(0.5) Linear(3,2)"


def test_small_cnn_takes_other_shapes() -> None:
    assert small_cnn(channels=1, size=28, classes=7)(images(2, 1, 28, 28)).shape == (2, 7)
    assert resnet18(channels=1, classes=3)(images(2, 1, 8, 8)).shape == (2, 3)
    assert cifar_resnet(14, channels=1, classes=3)(images(2, 1, 28, 28)).shape == (2, 3)


def test_random_features_are_of_unit_norm_and_fixed() -> None:
    model = RandomFeatures(inputs=30, hidden=20)
    assert torch.allclose(model.features.norm(dim=0), torch.ones(20))
    points = images(6, 30)
    expected = torch.relu(points @ model.features) @ model.output.weight.T
    assert torch.equal(model(points), expected)
    assert parameters(model) == 20
    assert "features" in model.state_dict()


def test_a_student_of_enough_features_learns_its_teacher() -> None:
    """Overparametrised four times (thesis section 4.4.2), it fits every label."""
    generator = torch.Generator().manual_seed(0)
    teacher = random_features_teacher(dimension=20, features=30, generator=generator)
    data = teacher_points(teacher, count=50, generator=generator)
    model = RandomFeatures(inputs=20, hidden=200, generator=generator)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(300):
        loss = nn.functional.softplus(-data.signs * model(data.points)[:, 0]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert torch.equal(model(data.points)[:, 0].sign(), data.signs)


def test_normalize_follows_the_device_but_not_the_state() -> None:
    layer = Normalize(mean=[0.1, 0.2, 0.3], std=[1.0, 2.0, 4.0])
    batch = images(2, 3, 4, 4)
    for channel, (mean, std) in enumerate([(0.1, 1.0), (0.2, 2.0), (0.3, 4.0)]):
        assert torch.allclose(layer(batch)[:, channel], (batch[:, channel] - mean) / std)
    assert layer.state_dict() == {}
    assert layer.double()(batch.double()).dtype == torch.float64
    assert layer.to("meta").mean.device.type == "meta"


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: cifar_resnet(18), "6 m \\+ 2 .*but came 18"),
        (lambda: cifar_resnet(8, shortcut="none"), "'conv', 'pad-both' or 'pad-end'"),
        (lambda: cifar_resnet(8, normalisation="layer"), "'batch', 'group' or 'none'"),
        (lambda: WideResNet(depth=29), "6 m \\+ 4"),
        (lambda: ResNet(blocks=(1, 1), widths=(4,)), "as many"),
        (lambda: ResNet(blocks=(1, 1), widths=(4, 2), shortcut="pad-end"), "never shrink"),
        (lambda: mlp((3,)), "two positive widths"),
        (lambda: mlp((3, 2), dropout=1.0), "dropout"),
        (lambda: small_cnn(size=30), "multiple of 4"),
        (lambda: RandomFeatures(inputs=0, hidden=1), "positive"),
        (lambda: sequential(""), "empty"),
        (lambda: sequential("Linear(3,4) Softmax"), "'Softmax'"),
        (lambda: sequential("Linear(3)"), r"'Linear\(3\)'"),
        (lambda: sequential("Conv(1,2,3,x,5)"), "came 'Conv"),
        (lambda: describe_sequential(nn.Sequential(nn.Tanh())), "Tanh"),
        (lambda: Normalize(mean=[0.0], std=[0.0]), "positive std"),
    ],
)
def test_impossible_networks_are_refused(make: Callable[[], nn.Module], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        make()


def test_descriptions_round_trip() -> None:
    text = "Conv(3,4,3,2,1) ReLU MaxPool(2) Flatten Linear(256,5) ReLU Dropout(0.25) Linear(5,2)"
    model = sequential(text)
    assert describe_sequential(model) == text
    assert model(images(2, 3, 32, 32)).shape == (2, 2)
