"""The ranking losses where such code breaks: no negatives, equal vectors, few bits, wrong input."""

import warnings

import pytest
import torch

from retrieval_oracles import embeddings, gradients
from strop.retrieval import (
    OrderViolation,
    contrastive_hinge_loss,
)
from strop.support import InputError

MININGS = [("sum", None), ("max", None), ("topk", 1), ("topk", 3), ("softmax", None)]
MININGS += [("semi-hard", None)]
SIMILARITIES = ["cosine", "dot", "order", "order-abs"]


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
