"""Negatives from beyond the batch, and training with them."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from retrieval.tiny_training import TINY, features
from strop.retrieval import HardestPairs, RandomPairs, evaluate, train_embedding
from strop.retrieval.assemble import assemble
from strop.retrieval.similarity import similarity_from_name
from strop.support import InputError

SETTINGS = replace(TINY, mining="max", epochs=1, word_dropout=0.0)


@pytest.fixture
def tiny():
    torch.manual_seed(0)
    parts = assemble(features(), SETTINGS, device=torch.device("cpu"))
    batch = parts.pairs(torch.arange(8))
    return parts.model, parts.pairs, batch, *parts.model(batch.images, batch.tokens)


def test_random_pairs_are_so_many_and_have_gradients(tiny):
    model, pairs, batch, images, captions = tiny
    found = RandomPairs(pairs, count=5)(model, images, captions, batch.image_ids)
    assert found.images.shape == (5, SETTINGS.embedding_dim)
    assert found.images.requires_grad
    assert found.captions.requires_grad


def test_hardest_pairs_hold_the_hardest_of_the_whole_set_for_every_query(tiny):
    model, pairs, batch, images, captions = tiny
    found = HardestPairs(pairs, refresh=1)(model, images, captions, batch.image_ids)
    everything = pairs(torch.arange(len(pairs)))
    all_images, all_captions = model(everything.images, everything.tokens)
    same = batch.image_ids[:, None] == everything.image_ids[None, :]
    cosine = similarity_from_name("cosine")
    for queries, gallery, of_found in (
        (images, all_captions, found.captions),
        (captions, all_images, found.images),
    ):
        scores = cosine.prepare_images(queries) @ cosine.prepare_images(gallery).T
        wanted = scores.masked_fill(same, -torch.inf).amax(dim=1)
        among = cosine.prepare_images(queries) @ cosine.prepare_images(of_found).T
        other = batch.image_ids[:, None] != found.image_ids[None, :]
        torch.testing.assert_close(among.masked_fill(~other, -torch.inf).amax(dim=1), wanted)
    assert found.images.requires_grad


def test_looking_for_the_hardest_changes_neither_mode_nor_randomness(tiny):
    model, pairs, batch, images, captions = tiny
    model.train()
    state = torch.get_rng_state()
    HardestPairs(pairs, refresh=1)(model, images, captions, batch.image_ids)
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "further", [partial(RandomPairs, count=8), partial(HardestPairs, refresh=2)]
)
def test_training_with_further_negatives_learns(further):
    settings = replace(TINY, mining="softmax", epochs=20, word_dropout=0.0)
    data = features()
    trained = train_embedding(
        data, None, settings=settings, further=further, device="cpu", progress="quiet"
    )
    assert evaluate(trained.model, features(1)).image_to_text.recall[1] > 50


def test_a_negative_set_as_large_as_the_batch_is_the_batch():
    whole, drawn = (
        train_embedding(
            features(),
            None,
            settings=replace(SETTINGS, negative_set_size=size),
            device="cpu",
            progress="quiet",
        ).model.fingerprint()
        for size in (None, 100)
    )
    assert whole == drawn


def test_a_drawn_negative_set_is_repeatable_and_differs_from_the_batch():
    prints = [
        train_embedding(
            features(),
            None,
            settings=replace(SETTINGS, negative_set_size=size),
            device="cpu",
            progress="quiet",
        ).model.fingerprint()
        for size in (2, 2, None)
    ]
    assert prints[0] == prints[1] != prints[2]


def test_wrong_requests_say_what_was_expected(tiny):
    _, pairs, *_ = tiny
    with pytest.raises(InputError, match="at least one further pair"):
        RandomPairs(pairs, count=0)
    with pytest.raises(InputError, match="refresh"):
        HardestPairs(pairs, refresh=0)
    with pytest.raises(InputError, match="negative_set_size"):
        replace(TINY, negative_set_size=0)
    with pytest.raises(InputError, match="hinge"):
        train_embedding(
            features(),
            None,
            settings=replace(TINY, loss="info-nce"),
            further=partial(RandomPairs, count=2),
            device="cpu",
            progress="quiet",
        )
