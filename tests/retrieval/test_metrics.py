"""Retrieval metrics against one sort per query, and against all orders of equal scores."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import retrieval_oracles as oracles
from strop.retrieval import (
    RetrievalMetrics,
    compare_recall,
    metrics_counts,
    retrieval_metrics,
)
from strop.support import InputError


def noisy_pairs(n_images, each=5, dimension=8, noise=1.0, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(n_images, dimension, generator=generator, dtype=dtype)
    captions = images.repeat_interleave(each, 0)
    captions = captions + noise * torch.randn(captions.shape, generator=generator, dtype=dtype)
    return images, captions, torch.arange(n_images).repeat_interleave(each)


def unit(values):
    return torch.nn.functional.normalize(values.double(), dim=1).numpy()


def test_ranks_are_those_of_one_sort_per_query():
    images, captions, owner = noisy_pairs(40)
    scores = retrieval_metrics(images, captions, owner)
    from_images, from_captions = oracles.published_ranks(unit(images), unit(captions))
    assert 0 < from_images.mean() < 20
    np.testing.assert_array_equal(scores.image_to_text.ranks, from_images + 1)
    np.testing.assert_array_equal(scores.text_to_image.ranks, from_captions + 1)
    for direction, ranks in (
        (scores.image_to_text, from_images),
        (scores.text_to_image, from_captions),
    ):
        for k in (1, 5, 10):
            assert direction.recall[k] == pytest.approx(100 * np.mean(ranks < k))
        assert direction.median_rank == np.floor(np.median(ranks)) + 1
        assert direction.mean_rank == pytest.approx(ranks.mean() + 1)
    recalls = [*scores.image_to_text.recall.values(), *scores.text_to_image.recall.values()]
    assert scores.rsum == pytest.approx(sum(recalls))


@pytest.mark.parametrize("similarity", ["cosine", "dot", "order", "order-abs"])
def test_every_similarity_ranks_as_its_dense_scores(similarity):
    images, captions, owner = noisy_pairs(15, each=2, dtype=torch.float64)
    ranked = retrieval_metrics(images, captions, owner, similarity=similarity)
    table = oracles.scores(images, captions, similarity)
    right = torch.arange(15)[:, None] == owner
    best = table.masked_fill(~right, -torch.inf).amax(1, keepdim=True)
    expected = 1 + (table.masked_fill(right, -torch.inf) > best).sum(1)
    np.testing.assert_array_equal(ranked.image_to_text.ranks, expected)
    own = table.gather(0, owner[None])
    np.testing.assert_array_equal(ranked.text_to_image.ranks, 1 + (table > own).sum(0))


def check_against_all_orders(images, captions, owner):
    """Small integer vectors of one length: scores are exact, equal ones are many."""
    owner = np.asarray(owner)
    ranked = retrieval_metrics(images, captions, owner, ks=(1, 2, 3))
    table = np.round(unit(images) @ unit(captions).T, 9)
    right = np.arange(len(images))[:, None] == owner
    for direction, scores, truth in (
        (ranked.image_to_text, table, right),
        (ranked.text_to_image, table.T, right.T),
    ):
        asked = np.flatnonzero(truth.any(1))
        np.testing.assert_array_equal(direction.queries, asked)
        assert direction.skipped == len(scores) - len(asked)
        outcomes = oracles.expected_first_ranks(scores[asked], truth[asked])
        np.testing.assert_allclose(
            direction.ranks, [np.mean(ranks) for ranks in outcomes], rtol=1e-12
        )
        for k in (1, 2, 3):
            expected = [np.mean(np.array(ranks) <= k) for ranks in outcomes]
            np.testing.assert_allclose(direction.hits(k), expected, atol=1e-12)


def test_equal_scores_count_as_the_expectation_over_all_orders():
    directions = torch.eye(3)
    images = directions[[0, 0, 1, 2]]
    captions = directions[[0, 0, 0, 1, 2, 2]]
    check_against_all_orders(images, captions, [0, 0, 1, 2, 2, -1])


@given(
    image_kinds=st.lists(st.integers(0, 2), min_size=1, max_size=4),
    caption_kinds=st.lists(
        st.tuples(st.integers(0, 2), st.integers(-1, 3)), min_size=1, max_size=5
    ),
)
def test_any_correspondence_with_ties_matches_all_orders(image_kinds, caption_kinds):
    directions = torch.tensor([[3.0, 4.0], [4.0, 3.0], [-5.0, 0.0]])
    images = directions[image_kinds]
    captions = directions[[kind for kind, _ in caption_kinds]]
    owner = [image if image < len(images) else -1 for _, image in caption_kinds]
    check_against_all_orders(images, captions, owner)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_a_model_that_maps_all_to_one_point_scores_chance(dtype):
    n, each = 60, 5
    images = torch.randn(1, 300).expand(n, 300).to(dtype)
    captions = torch.randn(1, 300).expand(each * n, 300).to(dtype)
    scores = retrieval_metrics(images, captions, torch.arange(n).repeat_interleave(each))
    assert scores.text_to_image.mean_rank == pytest.approx((n + 1) / 2)
    for k in (1, 5, 10):
        assert scores.text_to_image.recall[k] == pytest.approx(100 * k / n)
    assert scores.image_to_text.recall[1] == pytest.approx(100 * each / (each * n))
    assert scores.image_to_text.mean_rank == pytest.approx((each * n + 1) / (each + 1))


def test_repeated_captions_tie_however_their_scores_are_rounded(monkeypatch):
    # Two images share each caption: in text to image nothing is tied, in image to text every right
    # caption has a wrong twin. Odd sizes put twins into blocks of different shapes.
    monkeypatch.setattr(metrics_counts, "BLOCK_ROWS", 7)
    monkeypatch.setattr(metrics_counts, "BLOCK_COLUMNS", 13)
    captions = torch.randn(30, 257, generator=torch.Generator().manual_seed(1))
    captions = torch.cat([captions, captions])
    images = captions + 0.05 * torch.randn(captions.shape)
    scores = retrieval_metrics(images, captions, torch.arange(60), ks=(1, 2))
    np.testing.assert_array_equal(scores.image_to_text.ranks, np.full(60, 1.5))
    assert scores.image_to_text.recall == {1: pytest.approx(50), 2: pytest.approx(100)}
    assert (scores.image_to_text.tied_wrong == 1).all()
    assert (scores.text_to_image.tied_wrong == 0).all()


def test_scores_nearer_than_float32_can_tell_are_told_apart_in_float64():
    captions = torch.randn(400, 512, generator=torch.Generator().manual_seed(3))
    captions[200:] = captions[:200] * (1 + 1e-7 * torch.randn(200, 512))
    images = captions + 0.01 * torch.randn(400, 512, generator=torch.Generator().manual_seed(4))
    scores = retrieval_metrics(images, captions, torch.arange(400), similarity="cosine")
    table = torch.from_numpy(unit(images) @ unit(captions).T)
    margin = table - table.diagonal()[:, None]
    certain = ((margin.abs() > 1e-13) | torch.eye(400, dtype=torch.bool)).all(1)
    assert certain.sum() > 350
    expected = 1 + (margin > 0).sum(1)
    np.testing.assert_array_equal(
        scores.image_to_text.ranks[certain.numpy()], expected[certain].numpy()
    )


@given(rows=st.integers(1, 9), columns=st.integers(1, 23), seed=st.integers(0, 50))
def test_ranks_do_not_depend_on_the_blocks(rows, columns, seed):
    images, captions, owner = noisy_pairs(11, each=2, seed=seed)
    owner = owner.flip(0)
    whole = retrieval_metrics(images, captions, owner)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics_counts, "BLOCK_ROWS", rows)
        patch.setattr(metrics_counts, "BLOCK_COLUMNS", columns)
        blocked = retrieval_metrics(images, captions, owner)
    np.testing.assert_array_equal(blocked.image_to_text.ranks, whole.image_to_text.ranks)
    np.testing.assert_array_equal(blocked.text_to_image.ranks, whole.text_to_image.ranks)


def test_folds_are_the_average_over_consecutive_slices_of_images():
    images, captions, owner = noisy_pairs(20, each=3)
    shuffled = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    captions, owner = captions[shuffled], owner[shuffled]
    folded = retrieval_metrics(images, captions, owner, folds=4)
    parts = []
    for start in range(0, 20, 5):
        members = (owner >= start) & (owner < start + 5)
        parts.append(
            retrieval_metrics(images[start : start + 5], captions[members], owner[members] - start)
        )
    for name in ("image_to_text", "text_to_image"):
        one, several = getattr(folded, name), [getattr(part, name) for part in parts]
        for k in (1, 5, 10):
            assert one.recall[k] == pytest.approx(np.mean([part.recall[k] for part in several]))
        assert one.median_rank == pytest.approx(np.mean([part.median_rank for part in several]))
        assert one.mean_rank == pytest.approx(np.mean([part.mean_rank for part in several]))
    by_query = np.empty(60)
    for start, part in zip(range(0, 20, 5), parts, strict=True):
        by_query[((owner >= start) & (owner < start + 5)).numpy()] = part.text_to_image.ranks
    np.testing.assert_array_equal(folded.text_to_image.ranks, by_query)
    assert folded.to_dict()["folds"] == 4


def test_folds_without_captions_are_passed_over():
    images, captions, _ = noisy_pairs(6, each=1)
    owner = torch.tensor([0, 1, 1, 0, -1, 1])
    folded = retrieval_metrics(images, captions, owner, folds=3)
    alone = retrieval_metrics(images[:2], captions[owner >= 0], owner[owner >= 0])
    assert folded.rsum == alone.rsum
    assert (folded.image_to_text.n_queries, folded.image_to_text.skipped) == (2, 4)
    assert (folded.text_to_image.n_queries, folded.text_to_image.skipped) == (5, 1)
    nothing = retrieval_metrics(images, captions, torch.full((6,), -1), folds=3)
    assert nothing.image_to_text.skipped == 6


def test_queries_without_an_answer_are_left_out_and_counted():
    images, captions, owner = noisy_pairs(6, each=1)
    owner = torch.where(owner == 2, -1, owner)
    scores = retrieval_metrics(images, captions, owner)
    assert (scores.image_to_text.n_queries, scores.image_to_text.skipped) == (5, 1)
    assert (scores.text_to_image.n_queries, scores.text_to_image.skipped) == (5, 1)
    assert scores.image_to_text.queries.tolist() == [0, 1, 3, 4, 5]


def test_nothing_to_ask_gives_no_number():
    scores = retrieval_metrics(torch.ones(2, 3), torch.ones(2, 3), [-1, -1])
    assert np.isnan(scores.rsum)
    report = json.loads(json.dumps(scores.to_dict(), allow_nan=False))
    assert report["image_to_text"]["mean_rank"] is None
    assert report["text_to_image"]["skipped"] == 2


def test_reports_hold_the_numbers():
    scores = retrieval_metrics(*noisy_pairs(30))
    report = json.loads(json.dumps(scores.to_dict(), allow_nan=False))
    assert report["text_to_image"]["recall"]["5"] == scores.text_to_image.recall[5]
    frame = scores.to_pandas()
    assert frame.loc["image to text", "R@10"] == scores.image_to_text.recall[10]
    last = scores.table().splitlines()[-1].replace("|", " ").split()
    numbers = [
        value
        for one in (scores.image_to_text, scores.text_to_image)
        for value in (*one.recall.values(), one.median_rank, one.mean_rank)
    ]
    assert last == [f"{value:.1f}" for value in numbers]


def test_large_finite_embeddings_are_not_taken_for_infinite():
    images = torch.full((2, 4), 3e38)
    images[1, 0] = -3e38
    scores = retrieval_metrics(images / 1e20, images / 1e20, [0, 1])
    assert scores.rsum == 600
    half = torch.eye(3, dtype=torch.float16) * 4e4 + 2e4  # rows add up to more than it can hold
    assert retrieval_metrics(half, half, [0, 1, 2]).image_to_text.recall[1] == 100


def test_numpy_and_torch_say_the_same():
    images, captions, owner = noisy_pairs(9)
    one = retrieval_metrics(images, captions, owner)
    other = retrieval_metrics(images.numpy(), captions.numpy(), owner.tolist())
    assert one.to_dict() == other.to_dict()


def test_batches_give_what_the_whole_gives():
    images, captions, owner = noisy_pairs(10)
    whole = retrieval_metrics(images, captions, owner)
    metrics = RetrievalMetrics()
    shuffled = torch.randperm(50, generator=torch.Generator().manual_seed(2))
    for _ in range(2):
        metrics.reset()
        for part in shuffled.split(8):
            metrics.update(images[owner[part]], captions[part], image_ids=owner[part])
        assert metrics.compute().to_dict() == whole.to_dict()


def test_images_and_captions_may_come_apart():
    images, captions, owner = noisy_pairs(10)
    metrics = RetrievalMetrics()
    metrics.update(captions=captions, image_ids=owner)
    metrics.update(images, image_ids=torch.arange(10))
    assert metrics.compute().to_dict() == retrieval_metrics(images, captions, owner).to_dict()


def test_compute_without_batches_says_what_to_do():
    with pytest.raises(InputError, match=r"update\(\) first"):
        RetrievalMetrics().compute()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": torch.ones(3)}, r"images as embeddings .* \(3,\)"),
        ({"captions": torch.ones(6, 7)}, "one dimension"),
        ({"images": torch.full((3, 8), torch.nan)}, "row 0 of the images holds NaN"),
        ({"captions": torch.full((6, 8), torch.inf)}, "row 0 of the captions"),
        ({"images": torch.ones(3, 8, dtype=torch.int64)}, "floating point"),
        ({"image_of_caption": torch.zeros(5, dtype=torch.int64)}, "each of the 6 captions"),
        ({"image_of_caption": torch.full((6,), 3)}, "between -1 .no image. and 2"),
        ({"image_of_caption": torch.zeros(6)}, "as integers"),
        ({"folds": 4}, "1 to 3 folds"),
        ({"ks": (0,)}, "at least 1"),
    ],
)
def test_wrong_inputs_are_named(change, message):
    images, captions, owner = noisy_pairs(3, each=2)
    arguments = {"images": images, "captions": captions, "image_of_caption": owner, **change}
    with pytest.raises(InputError, match=message):
        retrieval_metrics(**arguments)


def test_paired_bootstrap_covers_the_plain_resampling_of_images():
    images, captions, owner = noisy_pairs(80, each=3, noise=1.0)
    first = retrieval_metrics(images, captions, owner)
    worse = captions + 1.0 * torch.randn(captions.shape, generator=torch.Generator().manual_seed(5))
    second = retrieval_metrics(images, worse, owner)
    found = compare_recall(
        first, second, k=1, direction="text_to_image", generator=torch.Generator().manual_seed(0)
    )
    gain = (first.text_to_image.hits(1) - second.text_to_image.hits(1)).reshape(80, 3)
    random = np.random.default_rng(1)
    plain = [100 * gain[random.integers(80, size=80)].mean() for _ in range(4000)]
    assert found.difference == pytest.approx(100 * gain.mean())
    assert found.low == pytest.approx(np.percentile(plain, 2.5), abs=0.6)
    assert found.high == pytest.approx(np.percentile(plain, 97.5), abs=0.6)
    assert found.decided


def test_a_model_does_not_beat_itself():
    scores = retrieval_metrics(*noisy_pairs(20))
    same = compare_recall(scores, scores, k=5)
    assert (same.low, same.difference, same.high) == (0, 0, 0)
    assert not same.decided


def test_models_of_different_test_sets_are_not_compared():
    one, other = (retrieval_metrics(*noisy_pairs(n)) for n in (20, 21))
    with pytest.raises(InputError, match="same queries"):
        compare_recall(one, other)
