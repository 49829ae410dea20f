"""Samplers: what each promises of its batches, and of the order of an epoch."""

import itertools
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from strop.data import DistinctImageBatches, StratifiedBatches, WeightedBatches
from strop.support import InputError

GROUPS = torch.arange(60) // 4


def samplers(seed=0):
    return {
        "weighted": WeightedBatches(torch.arange(1.0, 41.0), batch_size=4, seed=seed),
        "stratified": StratifiedBatches(torch.arange(40) % 5, per_stratum=2, seed=seed),
        "distinct": DistinctImageBatches(GROUPS, batch_size=7, seed=seed),
        "distinct, all": DistinctImageBatches(GROUPS, batch_size=7, drop_last=False, seed=seed),
    }


@pytest.mark.parametrize("name", samplers())
def test_an_epoch_is_a_function_of_seed_and_epoch_alone(name):
    sampler = samplers()[name]
    torch.manual_seed(0)
    first = list(sampler.batches(3))
    torch.manual_seed(1)
    list(sampler.batches(2))
    again = samplers()[name]
    assert list(sampler.batches(3)) == first == list(again.batches(3))
    assert first != list(sampler.batches(4))
    assert first != list(samplers(seed=1)[name].batches(3))
    assert len(first) == len(sampler)


@pytest.mark.parametrize("name", samplers())
@pytest.mark.parametrize("start", [0, 1, 3])
def test_an_epoch_can_be_taken_up_in_the_middle(name, start):
    sampler = samplers()[name]
    assert list(sampler.batches(5, start)) == list(sampler.batches(5))[start:]


@pytest.mark.parametrize("name", samplers())
def test_a_data_loader_takes_it_as_a_batch_sampler(name):
    sampler = samplers()[name]
    sampler.set_epoch(2)
    loaded = [batch.tolist() for batch in DataLoader(torch.arange(60), batch_sampler=sampler)]
    assert loaded == list(sampler.batches(2))


def test_drawing_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    for sampler in samplers().values():
        list(sampler)
    assert torch.equal(before, torch.get_rng_state())


def test_examples_come_as_often_as_they_weigh():
    weights = torch.tensor([0.0, 1.0, 2.0, 7.0, 0.0])
    sampler = WeightedBatches(weights, batch_size=1000, count=40)
    drawn = Counter(itertools.chain.from_iterable(sampler))
    assert set(drawn) == {1, 2, 3}
    for example, share in ((1, 0.1), (2, 0.2), (3, 0.7)):
        # Four standard deviations of a binomial of 40,000 draws.
        assert abs(drawn[example] / 40_000 - share) < 4 * (share * (1 - share) / 40_000) ** 0.5


def test_corrected_losses_of_weighted_batches_are_unbiased():
    losses = torch.tensor([1.0, 5.0, -2.0, 8.0], dtype=torch.float64)
    weights = torch.tensor([1.0, 4.0, 2.0, 3.0])
    corrections = WeightedBatches(weights, batch_size=1).corrections
    expected = (weights / weights.sum() * corrections * losses).sum()
    torch.testing.assert_close(expected, losses.mean())


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.integers(1, 3), st.integers(0, 9))
def test_every_stratum_has_its_places_in_every_batch(strata, per_stratum, epoch):
    sampler = StratifiedBatches(torch.tensor(strata), per_stratum=per_stratum)
    kinds = sorted(set(strata))
    expected = [kind for kind in kinds for _ in range(per_stratum)]
    for batch in sampler.batches(epoch):
        assert [strata[example] for example in batch] == expected
    shares = [strata.count(kind) / len(strata) / per_stratum for kind in expected]
    torch.testing.assert_close(sampler.weights, torch.tensor(shares, dtype=torch.float64))


def test_strata_are_used_up_before_an_example_comes_again():
    strata = torch.tensor([0] * 5 + [1] * 20)
    for epoch in range(5):
        columns = list(zip(*StratifiedBatches(strata, count=20).batches(epoch), strict=True))
        assert Counter(columns[1]) == dict.fromkeys(range(5, 25), 1)
        for cycle in range(4):
            assert sorted(columns[0][5 * cycle : 5 * cycle + 5]) == [0, 1, 2, 3, 4]


def test_the_stratified_estimate_is_unbiased_over_all_choices():
    values = torch.tensor([1.0, 4.0, -2.0, 8.0, 8.0, 3.0], dtype=torch.float64)
    strata = torch.tensor([0, 0, 1, 1, 1, 2])
    sampler = StratifiedBatches(strata)
    members = [torch.nonzero(strata == kind).flatten().tolist() for kind in range(3)]
    choices = [values[list(choice)] @ sampler.weights for choice in itertools.product(*members)]
    torch.testing.assert_close(torch.stack(choices).mean(), values.mean())


def feasible(counts, batches, batch_size):
    return sum(min(count, batches) for count in counts) >= batches * batch_size


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(1, 6), st.integers(0, 5))
def test_no_batch_holds_an_image_twice_and_no_caption_is_lost(groups, batch_size, epoch):
    sampler = DistinctImageBatches(torch.tensor(groups), batch_size=batch_size, drop_last=False)
    batches = list(sampler.batches(epoch))
    assert sorted(itertools.chain.from_iterable(batches)) == list(range(len(groups)))
    for batch in batches:
        images = [groups[caption] for caption in batch]
        assert len(set(images)) == len(images) <= batch_size
    counts = list(Counter(groups).values())
    most = max((n for n in range(len(groups) + 1) if feasible(counts, n, batch_size)), default=0)
    sizes = [len(batch) for batch in batches]
    assert sizes.count(batch_size) == most
    assert sizes[:most] == [batch_size] * most
    assert len(batches) == len(sampler) == max(*counts, -(-len(groups) // batch_size))


def test_with_enough_images_only_the_remainder_is_dropped():
    sampler = DistinctImageBatches(torch.arange(500) // 5, batch_size=32)
    drawn = list(itertools.chain.from_iterable(sampler.batches(0)))
    assert len(sampler) == 500 // 32
    assert len(set(drawn)) == len(drawn) == 32 * (500 // 32)


def test_images_meet_new_images_with_every_caption():
    groups = torch.arange(1000) // 5
    met = []
    for batch in DistinctImageBatches(groups, batch_size=20).batches(0):
        images = groups[batch]
        if 0 in images.tolist():
            met.append(set(images.tolist()) - {0})
    assert len(met) == 5
    assert len(set.union(*met)) > 0.6 * 5 * 19


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WeightedBatches(torch.tensor([1.0, -1.0]), batch_size=1), "at least 0"),
        (lambda: WeightedBatches(torch.tensor([1.0, float("nan")]), batch_size=1), "finite"),
        (lambda: WeightedBatches(torch.zeros(3), batch_size=1), "all weights are 0"),
        (lambda: WeightedBatches(torch.ones(3), batch_size=0), "batch_size to be at least 1"),
        (lambda: StratifiedBatches(torch.ones(3)), "whole number"),
        (lambda: StratifiedBatches(torch.tensor([], dtype=torch.long)), "whole number"),
        (lambda: StratifiedBatches(GROUPS, per_stratum=0), "per_stratum to be at least 1"),
        (lambda: DistinctImageBatches(GROUPS, batch_size=16), "only 15 images; take a smaller"),
    ],
)
def test_impossible_wishes_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
