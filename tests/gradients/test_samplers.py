"""Stratified batches: unbiased in every loader, and what each promises of its places."""

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gradients import sampler_jobs as jobs
from strop.gradients import (
    EvenBatchSampler,
    StratifiedBatchSampler,
    WeightedExamples,
    weighted_loss,
)
from strop.gradients.strata import Strata, places_on_circle, proportional_places
from strop.support import InputError
from strop.training import EpochSource
from training.processes import in_processes, torchrun

TESTS = Path(__file__).parent.parent
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def partition(sizes: list[int]) -> Tensor:
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))


def assert_full(gradient: Tensor) -> None:
    # Weights are delivered in single precision.
    torch.testing.assert_close(gradient, jobs.full_gradient(), rtol=1e-6, atol=1e-7)


@given(SIZES, st.data())
def test_places_are_proportional_and_as_safe_as_can_be(sizes: list[int], data: st.DataObject):
    batch = data.draw(st.integers(len(sizes), sum(sizes)))
    places = proportional_places(torch.tensor(sizes), batch_size=batch).tolist()
    assert sum(places) == batch
    assert all(1 <= n <= size for n, size in zip(places, sizes, strict=True))
    if sum(sizes) <= 12:
        every = itertools.product(*(range(1, size + 1) for size in sizes))
        bounds = [
            max(size / n for size, n in zip(sizes, choice, strict=True))
            for choice in every
            if sum(choice) == batch
        ]
        assert max(s / n for s, n in zip(sizes, places, strict=True)) == min(bounds)


@given(SIZES, st.data())
def test_random_places_have_the_right_mean_over_all_starts(sizes: list[int], data: st.DataObject):
    total = sum(sizes)
    batch = data.draw(st.integers(1, total))
    order = torch.tensor(data.draw(st.permutations(range(len(sizes)))))
    shares = torch.tensor(sizes)
    found = torch.stack(
        [places_on_circle(shares, order, batch_size=batch, start=s) for s in range(total)]
    )
    assert bool((found.sum(1) == batch).all())
    assert bool(((found - batch * shares / total).abs() < 1).all())
    assert torch.equal(found.sum(0), batch * shares)  # the mean is B N_k / N, exactly


@pytest.mark.parametrize("batch_size", [6, 9, 18])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_mean_over_an_epoch_is_the_full_gradient(batch_size: int, workers: int) -> None:
    """Exactly, because every cluster is used up a whole number of times; K = B and K < B."""
    if batch_size == 9 and workers:
        pytest.skip("workers add nothing here")
    sampler = jobs.make_sampler(batch_size)
    sampler.count = 8 * int(sampler._fixed.max())
    assert_full(jobs.mean_gradient(jobs.make_model(), jobs.make_loader(sampler, workers)))


@pytest.mark.parametrize("batch_size", [1, 2, 4, 5])
def test_with_fewer_places_than_clusters_every_example_has_its_share(batch_size: int) -> None:
    sampler = StratifiedBatchSampler(jobs.CLUSTERS, batch_size, count=4000)
    assert bool((sampler.weights == 1).all())
    drawn = torch.zeros(4000, len(jobs.CLUSTERS), dtype=torch.float64)
    for row, batch in zip(drawn, sampler, strict=True):
        row.index_add_(0, torch.tensor(batch), torch.ones(batch_size, dtype=torch.float64))
    expected = batch_size / len(jobs.CLUSTERS)
    error = drawn.std(0) / len(drawn) ** 0.5
    assert bool(((drawn.mean(0) - expected).abs() <= 4 * error).all())


@pytest.mark.parametrize("at_least", [1, 2])
def test_every_cluster_has_its_places_in_every_batch(at_least: int) -> None:
    sampler = StratifiedBatchSampler(jobs.CLUSTERS, 10, at_least=at_least)
    for batch in sampler.batches(3):
        counts = Counter(jobs.CLUSTERS[batch].tolist())
        assert all(counts[k] >= min(at_least, size) for k, size in enumerate(jobs.SIZES))
        assert len(batch) == 10
    for k, size in enumerate(jobs.SIZES):
        expected = 10 * size / (sum(jobs.SIZES) * counts[k])
        own = sampler.weights[Strata(jobs.CLUSTERS).members[k]]
        assert own.tolist() == pytest.approx([expected] * size)


@pytest.mark.parametrize("make", [StratifiedBatchSampler, EvenBatchSampler])
def test_an_epoch_is_a_function_of_seed_and_epoch_alone(make) -> None:
    first, second = make(jobs.CLUSTERS, 6, seed=1), make(jobs.CLUSTERS, 6, seed=1)
    before = torch.get_rng_state()
    assert list(first.batches(2)) == list(second.batches(2)) != list(first.batches(3))
    assert list(first.batches(2, 1)) == list(first.batches(2))[1:]
    assert torch.equal(before, torch.get_rng_state())
    first.set_epoch(2)
    assert list(first) == list(first.batches(2)) != list(make(jobs.CLUSTERS, 6, seed=2).batches(2))


def assert_full_in_both(outcomes: list[Any]) -> None:
    (gradient, first), (other, second) = outcomes
    assert_full(torch.tensor(gradient, dtype=torch.float64))
    assert gradient == other
    assert [a + b for a, b in zip(first, second, strict=True)] == list(jobs.make_sampler())


def test_two_processes_give_the_full_gradient() -> None:
    assert_full_in_both(in_processes(jobs.in_process))


@pytest.mark.slow
def test_torchrun_gives_the_full_gradient(tmp_path: Path) -> None:
    torchrun(TESTS / "gradients" / "sampler_jobs.py", tmp_path)
    assert_full_in_both([json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)])


def test_the_training_loop_takes_it(tmp_path: Path) -> None:
    batches = EpochSource(jobs.make_loader(jobs.make_sampler()), seed=0)
    assert_full(jobs.mean_gradient(jobs.make_model(), batches(0)))
    first, second = ([index.tolist() for *_, index in batches(epoch)] for epoch in (0, 1))
    assert first != second


def test_lightning_gives_the_full_gradient() -> None:
    lightning = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
    seen: list[list[int]] = []
    found: list[Tensor] = []

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = jobs.make_model()

        def training_step(self, batch, number):
            examples, weights, index = batch
            seen.append(index.tolist())
            return weighted_loss(jobs.losses(self.model, examples), weights)

        def on_after_backward(self) -> None:
            found.append(jobs.flat(self.model))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", enable_model_summary=False, **quiet
    )
    trainer.fit(Module(), jobs.make_loader(jobs.make_sampler(), workers=2))
    assert len(found) == 2 * jobs.COUNT
    assert_full(torch.stack(found[: jobs.COUNT]).mean(0))
    assert_full(torch.stack(found[jobs.COUNT :]).mean(0))
    assert seen[: jobs.COUNT] != seen[jobs.COUNT :]  # the second epoch has its own order


@pytest.mark.parametrize("split", [False, True])
def test_accelerate_gives_the_full_gradient(split: bool) -> None:
    accelerate = pytest.importorskip("accelerate", reason="Accelerate is not installed")
    loader_module = pytest.importorskip("accelerate.data_loader")
    loader = jobs.make_loader(jobs.make_sampler())
    shares = [
        loader_module.prepare_data_loader(
            loader,
            torch.device("cpu"),
            num_processes=2,
            process_index=rank,
            split_batches=split,
            put_on_device=False,
            even_batches=True,
        )
        for rank in range(2)
    ]
    accelerate.state.PartialState()
    gradients = [jobs.mean_gradient(jobs.make_model(), share) for share in shares]
    assert_full(torch.stack(gradients).mean(0))
    orders = []
    for epoch in range(2):
        shares[0].set_epoch(epoch)
        orders.append([index.tolist() for *_, index in shares[0]])
    assert orders[0] != orders[1]


def test_even_batches_have_every_group_equally_often() -> None:
    groups = partition([40, 6, 2])
    even = list(EvenBatchSampler(groups, 7, count=30))
    for batch in even:
        counts = Counter(groups[batch].tolist())
        assert sorted(counts.values()) == [2, 2, 3]
    total = Counter(groups[list(itertools.chain.from_iterable(even))].tolist())
    assert all(abs(count - 70) < 15 for count in total.values())
    assert sum(total.values()) == 210


def test_the_estimate_of_a_mean_varies_less_than_insured() -> None:
    """Theorem B: at most ``insurance`` times uniform draws with replacement."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        values = torch.randn(18, generator=generator, dtype=torch.float64)
        sampler = StratifiedBatchSampler(jobs.CLUSTERS, 9)
        strata, variance = Strata(jobs.CLUSTERS), 0.0
        for members, places in zip(strata.members, sampler._fixed.tolist(), strict=True):
            own = values[members]
            if places < len(own):  # of the mean of n_k different ones
                fraction = (len(own) - places) / (len(own) - 1)
                variance += (len(own) / 18) ** 2 * own.var(correction=0) / places * fraction
        assert variance <= sampler.insurance * values.var(correction=0) / 9


def test_weights_go_with_their_examples() -> None:
    sampler = jobs.make_sampler()
    for batch, weights, index in jobs.make_loader(sampler, workers=2):
        torch.testing.assert_close(weights, sampler.weights[index])
        torch.testing.assert_close(batch[0], jobs.make_data().tensors[0][index])


def test_impossible_requests_name_what_would_do() -> None:
    with pytest.raises(InputError, match="a batch of 1 to 18 examples, but it is 19"):
        StratifiedBatchSampler(jobs.CLUSTERS, 19)
    with pytest.raises(InputError, match="2 of each of 6 clusters, but it is 9"):
        StratifiedBatchSampler(jobs.CLUSTERS, 9, at_least=2)
    with pytest.raises(InputError, match="does not divide among 4 processes"):
        jobs.make_sampler().shard(rank=0, num_replicas=4)
    with pytest.raises(InputError, match="expected a rank from 0 to below 2"):
        jobs.make_sampler().shard(rank=2, num_replicas=2)
    with pytest.raises(InputError, match="whole number for each example"):
        StratifiedBatchSampler(torch.rand(4), 2)
    with pytest.raises(InputError, match="a weight for each of 3 examples"):
        WeightedExamples([1, 2, 3], weights=torch.ones(2))
    with pytest.raises(InputError, match='reduction="none"'):
        weighted_loss(torch.tensor(1.0), torch.ones(3))
