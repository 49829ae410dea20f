"""The search lowers what it says, keeps to its caps, and the two theorems hold."""

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strop.gradients.local_search import largest_size, local_search
from strop.support import InputError

seeds = st.integers(0, 2**20)
caps = st.sampled_from([None, 4.0, 2.0, 1.3, 1.0])


def cloud(examples, dimension, seed, *, heavy=False):
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(examples, dimension, generator=generator, dtype=torch.float64)
    centres = 3 * torch.randn(4, dimension, generator=generator, dtype=torch.float64)
    points = points + centres[torch.randint(4, (examples,), generator=generator)]
    scale = torch.rand(examples, 1, generator=generator, dtype=torch.float64) ** -0.7
    return points * scale if heavy else points


def pairwise_objective(vectors, assignment):
    """Half the sum of squared distances over pairs that share a cluster."""
    same = assignment[:, None] == assignment[None]
    return 0.5 * float((torch.cdist(vectors, vectors).square() * same).sum())


def stratified_variance(vectors, assignment):
    """Variance of one draw from each cluster weighted N_k / N, from the definition."""
    total = 0.0
    for k in assignment.unique():
        members = vectors[assignment == k]
        total += (len(members) / len(vectors)) ** 2 * float(
            (members - members.mean(0)).square().sum(1).mean()
        )
    return total


def mini_batch_variance(vectors, batch_size, *, replacement):
    spread = float((vectors - vectors.mean(0)).square().sum(1).mean())
    n = len(vectors)
    return spread / batch_size * (1.0 if replacement else (n - batch_size) / (n - 1))


@given(st.integers(2, 40), st.integers(1, 9), st.integers(1, 6), caps, seeds, st.booleans())
def test_the_objective_falls_and_no_cluster_outgrows_its_cap(n, k, dimension, cap, seed, heavy):
    vectors = cloud(n, dimension, seed, heavy=heavy)
    generator = torch.Generator().manual_seed(seed)
    found = local_search(vectors, n_clusters=k, cap=cap, generator=generator)
    limit = largest_size(n, n_clusters=k, cap=cap)
    assert int(torch.bincount(found.assignment).max()) <= limit
    tolerance = 1e-9 * max(found.history)
    assert all(b <= a + tolerance for a, b in zip(found.history, found.history[1:], strict=False))
    assert found.objective == found.history[-1]
    exact = pairwise_objective(vectors, found.assignment)
    assert found.objective == pytest.approx(exact, rel=1e-8, abs=tolerance)
    assert found.objective / n**2 == pytest.approx(
        stratified_variance(vectors, found.assignment), rel=1e-8, abs=tolerance
    )


@given(st.integers(2, 25), st.integers(1, 6), caps, seeds)
def test_the_end_is_a_single_move_optimum_among_what_the_cap_allows(n, k, cap, seed):
    vectors = cloud(n, 3, seed)
    generator = torch.Generator().manual_seed(seed)
    found = local_search(vectors, n_clusters=k, cap=cap, generator=generator)
    limit = largest_size(n, n_clusters=k, cap=cap)
    sizes = torch.bincount(found.assignment, minlength=k)
    for i, target in product(range(n), range(k)):
        if sizes[target] < limit and target != found.assignment[i]:
            moved = found.assignment.clone()
            moved[i] = target
            assert pairwise_objective(vectors, moved) >= found.objective * (1 - 1e-9)


@given(st.integers(2, 40), st.integers(1, 12), seeds, st.booleans())
def test_theorem_a_a_local_optimum_is_never_worse_than_a_mini_batch(n, k, seed, heavy):
    vectors = cloud(n, 4, seed, heavy=heavy)
    generator = torch.Generator().manual_seed(seed)
    found = local_search(vectors, n_clusters=k, cap=None, generator=generator)
    bound = mini_batch_variance(vectors, k, replacement=True)
    assert stratified_variance(vectors, found.assignment) <= bound * (1 + 1e-9)


@given(st.integers(3, 60), st.integers(1, 12), seeds, st.booleans())
def test_theorem_b_no_partition_is_worse_than_its_largest_share_allows(n, k, seed, heavy):
    """Any partition, any vectors: that is what makes a stale clustering safe."""
    k = min(k, n - 1)
    vectors = cloud(n, 4, seed, heavy=heavy)
    generator = torch.Generator().manual_seed(seed)
    assignment = torch.randint(k, (n,), generator=generator)
    share = int(torch.bincount(assignment).max()) * k / n
    ours = stratified_variance(vectors, assignment)
    assert ours <= share * mini_batch_variance(vectors, k, replacement=True) * (1 + 1e-9)
    finite = share * (n - 1) / (n - k)
    assert ours <= finite * mini_batch_variance(vectors, k, replacement=False) * (1 + 1e-9)


def test_theorem_b_is_sharp():
    """All spread inside the largest cluster: nothing smaller than its share would do."""
    assignment = torch.tensor([0] * 6 + [1] * 2)
    vectors = torch.zeros(8, 1, dtype=torch.float64)
    vectors[0], vectors[1] = 1.0, -1.0
    bound = 6 * 2 / 8 * mini_batch_variance(vectors, 2, replacement=True)
    assert stratified_variance(vectors, assignment) == pytest.approx(bound)


@given(st.integers(2, 6), st.integers(1, 3), st.sampled_from([None, 1.0]), seeds)
def test_on_small_problems_some_start_finds_the_best_partition(n, k, cap, seed):
    vectors = cloud(n, 2, seed)
    limit = largest_size(n, n_clusters=k, cap=cap)
    best = min(
        pairwise_objective(vectors, torch.tensor(labels))
        for labels in product(range(k), repeat=n)
        if max(labels.count(c) for c in range(k)) <= limit
    )
    found = min(
        local_search(
            vectors, n_clusters=k, cap=cap, generator=torch.Generator().manual_seed(start)
        ).objective
        for start in range(20)
    )
    assert found == pytest.approx(best, rel=1e-8, abs=1e-9)


def test_swaps_go_on_where_a_tight_cap_bars_every_move():
    """Two tight pairs of groups: from a balanced mixture only exchanges can sort them."""
    vectors = torch.cat([torch.zeros(8, 1), torch.full((8, 1), 10.0)])
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        found = local_search(vectors, n_clusters=2, cap=1.0, generator=generator)
        assert found.objective == 0.0
        assert torch.bincount(found.assignment).tolist() == [8, 8]


def test_equal_vectors_cost_nothing_together_and_end_at_once():
    vectors = torch.full((50, 3), 1e6)
    found = local_search(vectors, n_clusters=7, cap=2.0, generator=torch.Generator().manual_seed(0))
    assert found.objective == 0.0
    assert len(found.history) <= 3


def test_the_same_generator_gives_the_same_partition():
    vectors = cloud(40, 3, 0)
    first, second = (
        local_search(vectors, n_clusters=5, cap=2.0, generator=torch.Generator().manual_seed(3))
        for _ in range(2)
    )
    assert torch.equal(first.assignment, second.assignment)


@pytest.mark.parametrize(
    ("k", "cap", "words"), [(0, 2.0, "positive number"), (2, 0.5, "at least 1")]
)
def test_impossible_sizes_are_refused(k, cap, words):
    with pytest.raises(InputError, match=words):
        local_search(torch.zeros(3, 1), n_clusters=k, cap=cap, generator=torch.Generator())
