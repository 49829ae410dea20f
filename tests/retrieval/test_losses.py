"""The ranking losses against their dense forms, and at the edges where such code breaks."""

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import retrieval_oracles as oracles
from strop.retrieval import (
    ContrastiveHingeLoss,
    InfoNCELoss,
    MaxOfHinges,
    OrderViolation,
    SoftmaxHinges,
    contrastive_hinge_loss,
    info_nce_loss,
)
from strop.support import InputError

MININGS = [("sum", None), ("max", None), ("topk", 1), ("topk", 3), ("softmax", None)]
MININGS += [("semi-hard", None)]
SIMILARITIES = ["cosine", "dot", "order", "order-abs"]


def embeddings(size: int, dimension: int = 5, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(size, dimension, generator=generator, dtype=torch.float64)
    noise = torch.randn(size, dimension, generator=generator, dtype=torch.float64)
    return images.requires_grad_(), (images.detach() + noise).requires_grad_()


def gradients(loss: Tensor, *inputs: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, inputs))


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize(("mining", "k"), MININGS)
@pytest.mark.parametrize("ids", [None, [0, 1, 1, 2, 3, 0, 4]])
def test_hinge_loss_and_gradient_match_the_dense_oracle(mining, k, similarity, ids):
    images, captions = embeddings(7)
    image_ids = None if ids is None else torch.tensor(ids)
    fast = contrastive_hinge_loss(
        images, captions, mining=mining, k=k, similarity=similarity, image_ids=image_ids,
        reduction="sum",
    )  # fmt: skip
    slow = oracles.hinge_loss(
        images, captions, mining=mining, k=k, similarity=similarity, image_ids=image_ids
    )
    assert slow > 0
    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(gradients(fast, images, captions), gradients(slow, images, captions))


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize(("mining", "k"), [pair for pair in MININGS if pair[0] != "softmax"])
def test_hinge_gradient_is_the_derivative_of_its_value(mining, k, similarity):
    images, captions = embeddings(4, seed=1)
    assert torch.autograd.gradcheck(
        lambda x, y: contrastive_hinge_loss(x, y, mining=mining, k=k, similarity=similarity),
        (images, captions),
    )


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_softmax_gradient_is_the_derivative_with_the_weights_held(similarity):
    # The weights are constants of the loss by definition, so the numerical derivative of the whole
    # is not its gradient; that of the sum with frozen weights is.
    images, captions = embeddings(4, seed=1)
    margin, temperature = 0.2, 0.1
    table = oracles.scores(images, captions, similarity).detach()
    off = ~torch.eye(4, dtype=torch.bool)
    rows = table.masked_fill(~off, -torch.inf).div(temperature).softmax(1)
    columns = table.masked_fill(~off, -torch.inf).div(temperature).softmax(0)

    def frozen(x: Tensor, y: Tensor) -> Tensor:
        scores = oracles.scores(x, y, similarity)
        positive = scores.diagonal()
        hinge_rows = (margin - positive[:, None] + scores).clamp(min=0)
        hinge_columns = (margin - positive + scores).clamp(min=0)
        return (rows * hinge_rows + columns * hinge_columns).sum()

    assert torch.autograd.gradcheck(frozen, (images, captions))
    fast = contrastive_hinge_loss(
        images, captions, similarity=similarity, temperature=temperature, reduction="sum"
    )
    torch.testing.assert_close(
        gradients(fast, images, captions), gradients(frozen(images, captions), images, captions)
    )


@given(
    size=st.integers(1, 9),
    dimension=st.integers(1, 4),
    mining=st.sampled_from(MININGS),
    similarity=st.sampled_from(SIMILARITIES),
    seed=st.integers(0, 1000),
    few_ids=st.booleans(),
)
def test_hinge_loss_matches_the_oracle_for_any_batch(
    size, dimension, mining, similarity, seed, few_ids
):
    images, captions = embeddings(size, dimension, seed)
    ids = torch.arange(size) % 2 if few_ids else None
    kind, k = mining
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast = contrastive_hinge_loss(
            images, captions, mining=kind, k=k, similarity=similarity, image_ids=ids,
            reduction="sum",
        )  # fmt: skip
    slow = oracles.hinge_loss(
        images, captions, mining=kind, k=k, similarity=similarity, image_ids=ids
    )
    torch.testing.assert_close(fast, slow)


def test_search_in_blocks_finds_what_one_product_finds(monkeypatch):
    from strop.retrieval import mining_candidates

    images, captions = embeddings(11)
    extra = embeddings(6, seed=3)
    arguments = {"negatives": tuple(extra), "image_ids": torch.arange(11) // 2}
    whole = [
        contrastive_hinge_loss(images, captions, mining=mining, **arguments)
        for mining in ("max", "semi-hard")
    ]

    def single_rows(candidates, rows):
        return (slice(row, row + 1) for row in range(rows.start, rows.stop))

    monkeypatch.setattr(mining_candidates, "_row_blocks", single_rows)
    blocked = [
        contrastive_hinge_loss(images, captions, mining=mining, **arguments)
        for mining in ("max", "semi-hard")
    ]
    torch.testing.assert_close(blocked, whole)


def test_softmax_runs_from_the_mean_of_all_hinges_to_the_hardest():
    images, captions = embeddings(8)
    total = contrastive_hinge_loss(images, captions, mining="sum")
    hardest = contrastive_hinge_loss(images, captions, mining="max")
    hot = contrastive_hinge_loss(images, captions, mining="softmax", temperature=1e9)
    cold = contrastive_hinge_loss(images, captions, mining="softmax", temperature=1e-6)
    torch.testing.assert_close(hot, total / 7)
    torch.testing.assert_close(cold, hardest)


def test_topk_runs_from_the_hardest_to_all():
    images, captions = embeddings(8)
    by_k = [contrastive_hinge_loss(images, captions, mining="topk", k=k) for k in (1, 7, 100)]
    torch.testing.assert_close(by_k[0], contrastive_hinge_loss(images, captions, mining="max"))
    total = contrastive_hinge_loss(images, captions, mining="sum")
    torch.testing.assert_close(by_k[1], total)
    torch.testing.assert_close(by_k[2], total)


def test_mean_is_the_sum_over_the_batch_size():
    images, captions = embeddings(6)
    by_sum = contrastive_hinge_loss(images, captions, reduction="sum")
    torch.testing.assert_close(contrastive_hinge_loss(images, captions), by_sum / 6)


def test_max_leaves_pairs_that_were_not_chosen_without_gradient():
    captions = torch.eye(4, dtype=torch.float64).requires_grad_()
    images = torch.eye(4, dtype=torch.float64)
    images[0] = torch.tensor([0.6, 0.8, 0, 0])  # the first image is nearer to the second caption
    loss = contrastive_hinge_loss(images, captions, mining="max")
    (gradient,) = torch.autograd.grad(loss, captions)
    assert (gradient[:2].abs().sum(1) > 0).all()
    assert (gradient[2:] == 0).all()


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize(("mining", "k"), MININGS)
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_zero_and_equal_vectors_give_finite_gradients(mining, k, similarity, value):
    images = torch.full((4, 3), value, requires_grad=True)
    captions = torch.full((4, 3), value, requires_grad=True)
    loss = contrastive_hinge_loss(images, captions, mining=mining, k=k, similarity=similarity)
    loss.backward()
    assert loss.isfinite()
    assert images.grad.isfinite().all()
    assert captions.grad.isfinite().all()


@pytest.mark.parametrize(("mining", "k"), MININGS)
@pytest.mark.parametrize(("size", "ids"), [(1, None), (3, [5, 5, 5])])
def test_a_batch_without_negatives_costs_nothing(mining, k, size, ids):
    images, captions = embeddings(size)
    ids = None if ids is None else torch.tensor(ids)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loss = contrastive_hinge_loss(images, captions, mining=mining, k=k, image_ids=ids)
    assert loss == 0
    assert all((gradient == 0).all() for gradient in gradients(loss, images, captions))
    if mining != "semi-hard":
        assert "no pair of this batch has a negative" in str(caught[0].message)


def test_nan_embeddings_show_in_the_loss():
    images, captions = torch.randn(2, 4, 3)
    images[2, 0] = torch.nan
    for mining, k in MININGS:
        loss = contrastive_hinge_loss(images, captions, mining=mining, k=k)
        assert loss.isnan(), mining


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize(("mining", "k"), MININGS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_half_precision_comes_near_and_gives_gradients_of_its_own_type(
    mining, k, similarity, dtype
):
    images, captions = embeddings(16, 8)
    rounded = [value.detach().to(dtype).requires_grad_() for value in (images, captions)]
    loss = contrastive_hinge_loss(*rounded, mining=mining, k=k, similarity=similarity)
    assert loss.dtype == torch.float32
    same = contrastive_hinge_loss(
        *(value.detach().double() for value in rounded), mining=mining, k=k, similarity=similarity
    )
    torch.testing.assert_close(loss.double(), same, rtol=16 * torch.finfo(dtype).eps, atol=0)
    loss.backward()
    assert rounded[0].grad.dtype == dtype
    assert rounded[0].grad.isfinite().all()


def test_info_nce_is_the_symmetric_cross_entropy():
    images, captions = embeddings(6)
    scores = oracles.scores(images, captions, "cosine") / 0.07
    target = torch.arange(6)
    entropy = torch.nn.functional.cross_entropy
    expected = (entropy(scores, target) + entropy(scores.T, target)) / 2
    loss = info_nce_loss(images, captions, temperature=0.07)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(
        info_nce_loss(images, captions, temperature=0.07, reduction="sum"), 12 * expected
    )
    torch.testing.assert_close(InfoNCELoss(temperature=0.07)(images, captions), expected)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_info_nce_gradient_is_its_derivative_with_ids_and_more_negatives(similarity):
    images, captions = embeddings(4)
    more_images, more_captions = embeddings(2, seed=5)
    ids, more_ids = torch.tensor([0, 1, 1, 2]), torch.tensor([1, 9])

    def loss(*inputs: Tensor) -> Tensor:
        return info_nce_loss(
            inputs[0], inputs[1], temperature=0.5, image_ids=ids, similarity=similarity,
            negatives=(inputs[2], inputs[3], more_ids),
        )  # fmt: skip

    assert torch.autograd.gradcheck(loss, (images, captions, more_images, more_captions))


def test_info_nce_without_negatives_is_zero():
    images, captions = embeddings(3)
    loss = info_nce_loss(images, captions, image_ids=torch.zeros(3))
    assert loss == 0
    assert all((gradient == 0).all() for gradient in gradients(loss, images, captions))


def test_thesis_order_similarity_is_the_displayed_equation():
    images, captions = torch.randn(3, 4), torch.randn(5, 4)
    table = OrderViolation(normalise=False).matrix(images, captions)
    for i in range(3):
        for j in range(5):
            violation = torch.maximum(torch.zeros(4), captions[j] - images[i])
            torch.testing.assert_close(table[i, j], -(violation.norm() ** 2))


def test_dot_leaves_only_the_captions_length_out():
    images, captions = embeddings(5)
    loss = contrastive_hinge_loss(images, captions, similarity="dot")
    scaled_captions = contrastive_hinge_loss(images, 3 * captions, similarity="dot")
    scaled_images = contrastive_hinge_loss(3 * images, captions, similarity="dot")
    torch.testing.assert_close(scaled_captions, loss)
    assert abs(scaled_images - loss) > 0.01


def test_one_very_close_negative_costs_max_more_and_many_slight_ones_cost_sum_more():
    # Thesis figure 3.1: a) one negative much nearer than the positive, b) six slightly nearer.
    def losses(angles: list[float]) -> tuple[float, float]:
        query = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
        around = torch.tensor([0.8, *angles], dtype=torch.float64)
        points = torch.stack([around.cos(), around.sin()], dim=1)
        nothing = torch.empty(0, 2, dtype=torch.float64)
        return tuple(
            contrastive_hinge_loss(
                query, points[:1], negatives=(nothing, points[1:]), margin=0.0, mining=mining
            ).item()
            for mining in ("max", "sum")
        )

    one_close, many_slight = losses([0.2, 0.85, 0.9]), losses([0.7] * 6)
    assert one_close[0] > many_slight[0]
    assert one_close[1] < many_slight[1]


def test_modules_do_what_the_functions_do():
    images, captions = embeddings(5)
    ids = torch.tensor([0, 0, 1, 2, 3])
    module = ContrastiveHingeLoss(mining="topk", k=2, margin=0.3, similarity="order")
    expected = contrastive_hinge_loss(
        images, captions, mining="topk", k=2, margin=0.3, similarity="order", image_ids=ids
    )
    assert module(images, captions, ids) == expected
    module.mining = SoftmaxHinges(0.5)
    assert module(images, captions) == contrastive_hinge_loss(
        images, captions, temperature=0.5, margin=0.3, similarity="order"
    )
    assert "SoftmaxHinges(temperature=0.5)" in repr(module)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mining": "hardest"}, "mining must be"),
        ({"mining": "topk"}, "needs k"),
        ({"mining": "topk", "k": 0}, "k >= 1"),
        ({"mining": "max", "k": 2}, "k belongs to"),
        ({"temperature": 0.0}, "temperature above 0"),
        ({"similarity": "euclid"}, "similarity must be"),
        ({"reduction": "none"}, "reduction must be"),
        ({"image_ids": torch.zeros(2)}, "one for each pair"),
        ({"negatives": (torch.ones(2, 3), torch.ones(2, 3))}, "dimension"),
        ({"negatives": torch.ones(2, 5)}, "negatives must be"),
        ({"negatives": (torch.ones(2, 5), torch.ones(2, 5), torch.ones(2))}, "pass image_ids too"),
        ({"negative_set_size": 0}, "at least 1"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    images, captions = embeddings(4)
    with pytest.raises(InputError, match=message):
        contrastive_hinge_loss(images, captions, **arguments)


def test_mismatched_embeddings_are_named():
    with pytest.raises(InputError, match=r"\(3, 2\) and \(4, 2\)"):
        contrastive_hinge_loss(torch.ones(3, 2), torch.ones(4, 2))


def test_mining_given_as_a_value_is_taken_as_it_is():
    images, captions = embeddings(4)
    assert contrastive_hinge_loss(images, captions, mining=MaxOfHinges()) == contrastive_hinge_loss(
        images, captions, mining="max"
    )


@pytest.mark.parametrize(("mining", "k"), MININGS)
def test_the_root_of_the_order_violation_has_its_own_value_and_gradient(mining, k):
    images, captions = embeddings(6)

    def root(x: Tensor, y: Tensor) -> Tensor:
        x, y = (torch.nn.functional.normalize(rows, dim=1) for rows in (x, y))
        return -(y[None] - x[:, None]).clamp(min=0).pow(2).sum(-1).sqrt()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracles, "scores", lambda x, y, similarity: root(x, y))
        slow = oracles.hinge_loss(images, captions, mining=mining, k=k)
    fast = contrastive_hinge_loss(
        images, captions, mining=mining, k=k, similarity=OrderViolation(squared=False),
        reduction="sum",
    )  # fmt: skip
    assert slow > 0
    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(gradients(fast, images, captions), gradients(slow, images, captions))


@pytest.mark.parametrize(("mining", "k"), MININGS)
def test_the_root_of_no_violation_has_a_finite_gradient(mining, k):
    images = torch.ones(4, 3, requires_grad=True)
    captions = torch.ones(4, 3, requires_grad=True)
    contrastive_hinge_loss(
        images, captions, mining=mining, k=k, similarity=OrderViolation(squared=False)
    ).backward()
    assert images.grad.isfinite().all()
    assert captions.grad.isfinite().all()


@pytest.mark.parametrize("mining", ["max", "sum"])
def test_gradients_of_inner_products_can_be_differentiated_again(mining):
    images, captions = embeddings(4, seed=1)
    assert torch.autograd.gradgradcheck(
        lambda x, y: contrastive_hinge_loss(x, y, mining=mining), (images, captions)
    )


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize(("mining", "k"), MININGS)
def test_autocast_costs_no_more_than_its_precision(mining, k, similarity):
    images, captions = (value.detach().float().requires_grad_() for value in embeddings(16, 8))
    arguments = {"mining": mining, "k": k, "similarity": similarity}
    exact = contrastive_hinge_loss(images, captions, **arguments)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = contrastive_hinge_loss(images, captions, **arguments)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, exact, rtol=0.05, atol=0.01)
    assert all(gradient.isfinite().all() for gradient in gradients(loss, images, captions))
