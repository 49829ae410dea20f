"""More negatives than the batch has, and fewer."""

import pytest
import torch

import retrieval_oracles as oracles
from retrieval_oracles import embeddings, gradients
from strop.retrieval import (
    NegativeQueue,
    Negatives,
    contrastive_hinge_loss,
)

MININGS = [("sum", None), ("max", None), ("topk", 1), ("topk", 3), ("softmax", None)]
MININGS += [("semi-hard", None)]


@pytest.mark.parametrize("similarity", ["cosine", "order"])
@pytest.mark.parametrize(("mining", "k"), MININGS)
def test_negatives_beyond_the_batch_match_the_dense_oracle(mining, k, similarity):
    images, captions = embeddings(5)
    more_images, more_captions = embeddings(4, seed=2)
    ids, more_ids = torch.tensor([0, 1, 2, 2, 3]), torch.tensor([7, 2, 8, 0])
    fast = contrastive_hinge_loss(
        images, captions, mining=mining, k=k, similarity=similarity, image_ids=ids,
        negatives=(more_images, more_captions, more_ids), reduction="sum",
    )  # fmt: skip
    slow = oracles.hinge_loss(
        images, captions, mining=mining, k=k, similarity=similarity, image_ids=ids,
        extra=(more_images, more_captions, more_ids),
    )  # fmt: skip
    torch.testing.assert_close(fast, slow)
    inputs = (images, captions, more_images, more_captions)
    torch.testing.assert_close(gradients(fast, *inputs), gradients(slow, *inputs))


def test_negatives_without_ids_count_as_other_images():
    images, captions = embeddings(4)
    more_images, more_captions = embeddings(3, seed=2)
    ids = torch.tensor([0, 1, 1, 2])
    named = (more_images, more_captions, torch.tensor([10, 11, 12]))
    losses = [
        contrastive_hinge_loss(images, captions, image_ids=ids, negatives=negatives)
        for negatives in (named, named[:2], Negatives(*named[:2]))
    ]
    assert losses[0] == losses[1] == losses[2]


def test_lists_of_extra_images_and_captions_may_differ_in_length():
    images, captions = embeddings(4)
    more_images, more_captions = embeddings(3, seed=2)
    for mining in ("max", "sum"):
        both = contrastive_hinge_loss(
            images, captions, mining=mining, negatives=(more_images[:1], more_captions)
        )
        table = oracles.scores(
            torch.cat([images, more_images[:1]]), torch.cat([captions, more_captions]), "cosine"
        )
        table[4:, 4:] = -torch.inf
        expected = 0.0
        for b in range(4):
            others = [n for n in range(7) if n != b]
            hinges = (0.2 - table[b, b] + table[b, others]).clamp(min=0)
            back = [n for n in range(5) if n != b]
            hinges_back = (0.2 - table[b, b] + table[back, b]).clamp(min=0)
            if mining == "max":
                expected += (hinges.max() + hinges_back.max()) / 4
            else:
                expected += (hinges.sum() + hinges_back.sum()) / 4
        torch.testing.assert_close(both, expected)


def test_a_random_subset_of_the_negatives_has_the_size_asked_for(generator):
    images, captions = embeddings(9)
    draw = {"mining": "sum", "margin": 100.0, "reduction": "sum", "generator": generator}
    seen = contrastive_hinge_loss(images, captions, negative_set_size=3, **draw)
    # With so wide a margin each of the 2 * 9 * 3 hinges is open and within 2 of the margin.
    assert abs(seen.item() - 54 * 100) < 54 * 2
    everything = contrastive_hinge_loss(images, captions, negative_set_size=8, **draw)
    torch.testing.assert_close(
        everything, contrastive_hinge_loss(images, captions, **{**draw, "generator": None})
    )


def test_the_average_over_subsets_of_one_is_the_mean_of_all(generator):
    images, captions = embeddings(5)
    for mining in ("max", "sum"):
        draws = [
            contrastive_hinge_loss(
                images, captions, mining=mining, negative_set_size=1, generator=generator
            ).item()
            for _ in range(800)
        ]
        draws = torch.tensor(draws, dtype=torch.float64)
        mean = contrastive_hinge_loss(images, captions, mining="sum").item() / 4
        assert abs(draws.mean().item() - mean) < 4 * draws.std().item() / 800**0.5


def test_subsets_leave_out_captions_of_the_same_image(generator):
    images, captions = (value.detach() for value in embeddings(6))
    # Five pairs of one image, whose only negative is the sixth: a subset of one must find it.
    arguments = {
        "mining": "max",
        "image_ids": torch.zeros(5, dtype=torch.int64),
        "negatives": (images[5:], captions[5:], torch.tensor([1])),
    }
    exact = contrastive_hinge_loss(images[:5], captions[:5], **arguments)
    assert exact > 0
    for _ in range(20):
        drawn = contrastive_hinge_loss(
            images[:5], captions[:5], negative_set_size=1, generator=generator, **arguments
        )
        torch.testing.assert_close(drawn, exact)


def test_a_queue_serves_the_last_pairs_as_negatives():
    queue = NegativeQueue(size=4, dimension=5, dtype=torch.float64)
    assert queue.negatives() is None
    images, captions = embeddings(3)
    alone = contrastive_hinge_loss(images, captions, mining="max", negatives=queue)
    assert alone == contrastive_hinge_loss(images, captions, mining="max")
    older, newer = embeddings(3, seed=7), embeddings(3, seed=8)
    queue.push(*older, torch.tensor([0, 1, 2]))
    queue.push(*newer, torch.tensor([3, 4, 5]))
    remembered = queue.negatives()
    assert sorted(remembered.image_ids.tolist()) == [2, 3, 4, 5]
    torch.testing.assert_close(remembered.images[remembered.image_ids == 2][0], older[0][2])
    ids = torch.tensor([3, 20, 21])
    with_queue = contrastive_hinge_loss(
        images, captions, image_ids=ids, negatives=queue, reduction="sum"
    )
    last = [torch.cat([old[2:], new]) for old, new in zip(older, newer, strict=True)]
    expected = oracles.hinge_loss(
        images, captions, mining="softmax", image_ids=ids, extra=(*last, torch.tensor([2, 3, 4, 5]))
    )
    torch.testing.assert_close(with_queue, expected)
    with_queue.backward()


def test_a_queue_comes_back_from_its_state():
    queue = NegativeQueue(size=4, dimension=2)
    queue.push(torch.randn(3, 2), torch.randn(3, 2), torch.tensor([0, 1, 2]))
    again = NegativeQueue(size=4, dimension=2)
    again.load_state_dict(queue.state_dict())
    batch = torch.randn(3, 2), torch.randn(3, 2), torch.tensor([3, 4, 5])
    for one in (queue, again):
        one.push(*batch)
    assert len(again) == 4
    torch.testing.assert_close(again.negatives().images, queue.negatives().images)
    torch.testing.assert_close(again.negatives().image_ids, queue.negatives().image_ids)


def test_a_batch_larger_than_the_queue_leaves_its_end():
    queue = NegativeQueue(size=2, dimension=1)
    queue.push(torch.arange(5.0)[:, None], torch.arange(5.0)[:, None])
    assert sorted(queue.negatives().images[:, 0].tolist()) == [3.0, 4.0]
