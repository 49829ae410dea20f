"""Each layer's rule against one backward pass per example, in double precision."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from gradients.gradient_oracle import agree, layer_gradients
from strop.gradients import per_example
from strop.gradients.per_example import Dense, Outer, PerExample, add
from strop.gradients.rules import rule_for
from strop.support import InputError

small = st.integers(1, 5)
seeds = st.integers(0, 2**16)


def apply(layer: nn.Module, inputs: Tensor) -> tuple[dict[str, PerExample], dict[str, Tensor]]:
    layer.double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
        d = torch.randn_like(layer(inputs))
    return rule_for(layer)(layer, inputs, d), layer_gradients(layer, inputs, d)


def check(layer: nn.Module, inputs: Tensor, *, centres: int = 3) -> None:
    found, expected = apply(layer, inputs)
    assert found.keys() == expected.keys()
    for name, part in found.items():
        agree(part, expected[name], centres=centres)


@given(
    st.integers(1, 6),
    st.lists(st.integers(1, 6), max_size=2),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 12),
    st.booleans(),
    seeds,
)
def test_linear_over_any_leading_dimensions(n, leading, inputs, outputs, centres, bias, seed):
    torch.manual_seed(seed)
    x = torch.randn(n, *leading, inputs, dtype=torch.float64)
    check(nn.Linear(inputs, outputs, bias=bias), x, centres=centres)


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[nn.Module, Tensor]:
    space = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 3))
    channels, outputs = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))
    kernel = [draw(st.integers(1, 3)) for _ in range(space)]
    dilation = [draw(st.integers(1, 2)) for _ in range(space)]
    same = draw(st.booleans())
    stride = 1 if same else [draw(st.integers(1, 3)) for _ in range(space)]
    padding = "same" if same else [draw(st.integers(0, 2)) for _ in range(space)]
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    size = [r + draw(st.integers(0, 3)) for r in reach]
    mode = draw(st.sampled_from(["zeros", "replicate"]))
    torch.manual_seed(draw(seeds))
    layer = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[space - 1](
        channels,
        outputs,
        kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        bias=draw(st.booleans()),
        padding_mode=mode,
    )
    return layer, torch.randn(draw(small), channels, *size, dtype=torch.float64)


@given(convolutions(), st.integers(1, 12))
def test_convolution_of_any_geometry(case, centres):
    check(*case, centres=centres)


@given(convolutions())
def test_patches_and_grouped_convolution_are_two_ways_to_the_same(case):
    layer, x = case
    found, expected = apply(layer, x)
    by_patches = Outer(*found["weight"].factors(), layer.weight.shape)
    agree(by_patches, expected["weight"])


@given(
    small, st.lists(st.integers(1, 6), max_size=2), st.integers(1, 7), small, st.booleans(), seeds
)
def test_embedding_adds_up_repeated_tokens(n, leading, rows, width, padded, seed):
    torch.manual_seed(seed)
    indices = torch.randint(rows, (n, *leading))
    check(nn.Embedding(rows, width, padding_idx=0 if padded else None), indices)


@given(small, st.lists(small, max_size=2), st.lists(small, min_size=1, max_size=2), seeds)
@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.RMSNorm])
def test_layer_and_rms_norm(kind, n, leading, shape, seed):
    torch.manual_seed(seed)
    check(kind(shape), torch.randn(n, *leading, *shape, dtype=torch.float64))


@given(small, st.integers(1, 3), st.integers(2, 3), st.lists(small, max_size=3), seeds)
def test_group_norm(n, groups, per_group, space, seed):
    torch.manual_seed(seed)
    channels = groups * per_group
    x = torch.randn(n, channels, *space, dtype=torch.float64)
    check(nn.GroupNorm(groups, channels), x)


@given(small, small, seeds)
def test_batch_norm_in_evaluation(n, channels, seed):
    torch.manual_seed(seed)
    layer = nn.BatchNorm2d(channels).double()
    layer.running_mean.normal_()
    layer.running_var.uniform_(0.5, 2)
    check(layer.eval(), torch.randn(n, channels, 3, 2, dtype=torch.float64))


@pytest.mark.parametrize("positions", [1, 2, 40])
@pytest.mark.parametrize("examples", [1, 3])
def test_gradients_taken_a_few_rows_at_a_time_are_the_same(monkeypatch, positions, examples):
    monkeypatch.setattr(per_example, "BLOCK_ELEMENTS", 30)
    torch.manual_seed(0)
    check(nn.Linear(7, 5), torch.randn(examples, positions, 7, dtype=torch.float64), centres=9)
    layer = nn.Conv1d(4, 6, 3, groups=2)
    check(layer, torch.randn(examples, 4, positions + 2, dtype=torch.float64), centres=9)


@pytest.mark.parametrize("positions", [1, 200])
def test_the_cheaper_way_is_taken(monkeypatch, positions):
    """One position: never a gradient; many positions: never all pairs of positions."""
    part = Outer(torch.randn(4, 1, positions, 30), torch.randn(4, 1, positions, 20), (20, 30))

    def refuse(*_: int) -> Tensor:
        raise AssertionError("the dearer way")

    monkeypatch.setattr(part, "block" if positions == 1 else "factors", refuse)
    part.squared_norms()
    part.gram()


def test_frozen_parameters_are_left_out():
    layer = nn.Linear(3, 2)
    layer.weight.requires_grad_(False)
    assert list(rule_for(layer)(layer, torch.ones(4, 3), torch.ones(4, 2))) == ["bias"]


def test_half_precision_is_summed_in_single():
    layer = nn.Linear(3, 2).bfloat16()
    found = rule_for(layer)(layer, torch.ones(4, 3).bfloat16(), torch.ones(4, 2).bfloat16())
    assert found["weight"].gram().dtype == torch.float32


@pytest.mark.parametrize(
    ("layer", "inputs", "remedy"),
    [
        (nn.Embedding(3, 2, scale_grad_by_freq=True), torch.tensor([[1]]), "set it to False"),
        (nn.Conv1d(1, 1, 1), torch.ones(1, 4), "add the dimension of examples"),
        (nn.BatchNorm1d(1), torch.ones(4, 1), "GroupNorm"),
    ],
)
def test_what_has_no_gradient_of_its_own_is_refused_with_the_remedy(layer, inputs, remedy):
    with pytest.raises(InputError, match=remedy):
        rule_for(layer)(layer, inputs, layer(inputs).detach())


def test_a_layer_without_a_rule_is_named():
    with pytest.raises(InputError, match="GRU"):
        rule_for(nn.GRU(2, 2))


def test_a_sketch_of_a_vector_holds_no_more_than_its_directions():
    """Biases are sketched by one matrix product: no (examples, rows, directions) on the way."""
    part = Dense(torch.randn(8, 100))
    left, right = torch.randn(50, 100), torch.randn(50, 1)
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            out = function(*args, **(kwargs or {}))
            largest = max(largest, out.numel() if isinstance(out, Tensor) else 0)
            return out

    with Watch():
        part.inner_rank_one(left, right)
    assert 0 < largest <= left.numel()


@pytest.mark.parametrize("positions", [1, 40])
def test_contributions_to_a_tied_weight_are_added_first(positions):
    """A table that is also an output layer, wide (by factors) or long (by rows)."""
    torch.manual_seed(0)
    table, head = nn.Embedding(30, 20).double(), nn.Linear(20, 30, bias=False).double()
    indices = torch.randint(30, (3, positions))
    x, d_table = torch.randn(2, 3, positions, 20, dtype=torch.float64)
    d_head = torch.randn(3, positions, 30, dtype=torch.float64)
    parts = [
        rule_for(table)(table, indices, d_table)["weight"],
        rule_for(head)(head, x, d_head)["weight"],
    ]
    expected = layer_gradients(table, indices, d_table), layer_gradients(head, x, d_head)
    agree(add(parts), expected[0]["weight"] + expected[1]["weight"])
