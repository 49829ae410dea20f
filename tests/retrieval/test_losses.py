"""The ranking losses against their dense forms."""

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import retrieval_oracles as oracles
from retrieval_oracles import embeddings, gradients
from strop.retrieval import (
    ContrastiveHingeLoss,
    InfoNCELoss,
    MaxOfHinges,
    OrderViolation,
    SoftmaxHinges,
    contrastive_hinge_loss,
    info_nce_loss,
)

MININGS = [("sum", None), ("max", None), ("topk", 1), ("topk", 3), ("softmax", None)]
MININGS += [("semi-hard", None)]
SIMILARITIES = ["cosine", "dot", "order", "order-abs"]


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
