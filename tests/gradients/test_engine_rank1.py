"""The thesis's engine: its equations written out, its variants, its edges."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from gradients.clustering_problem import flat_gradients, losses, objective, problem
from gradients.gradient_oracle import network_gradients
from strop.gradients import Rank1, cluster_gradients
from strop.gradients.engine_rank1 import _Run, _truncated
from strop.models import mlp
from strop.support import InputError


@pytest.mark.parametrize("update", ["means", "svd"])
def test_the_thesis_engine_is_what_its_equations_say(update):
    """The same A and U steps with every gradient and centre written out."""
    model, data = problem(dtype=torch.float64)
    k, iterations, batch = 4, 3, 10
    settings = Rank1(iterations=iterations, update=update)
    generator = torch.Generator().manual_seed(1)
    found = cluster_gradients(
        model, losses, data, n_clusters=k, engine=settings, generator=generator, batch_size=batch
    )

    weights = {n: p for n, p in model.named_parameters() if p.ndim == 2}
    generator = torch.Generator().manual_seed(1)
    centres = {}
    for name, p in weights.items():
        left, right = (torch.rand(k, size, generator=generator) for size in p.shape)
        centres[name] = torch.einsum("ko,ki->koi", left, right).double() / sum(p.shape) ** 2
    inputs, targets = data.tensors
    hidden = functional.relu(model[1](inputs))
    activations = {"1.weight": inputs, "3.weight": hidden}
    logits = model(inputs)
    outputs = functional.softmax(logits, 1) - functional.one_hot(targets, 3)
    deltas = {"3.weight": outputs, "1.weight": (outputs @ model[3].weight) * (hidden > 0)}
    gradients = {n: torch.einsum("no,ni->noi", deltas[n], activations[n]).detach() for n in weights}
    history = []
    for _ in range(iterations):
        counts, assignment, distances = torch.zeros(k), [], []
        for rows in torch.arange(len(data)).split(batch):
            squared = sum(
                (gradients[n][rows, None] - centres[n]).square().sum((2, 3)) for n in weights
            )
            chosen = (squared * (counts + 1)).argmin(1)
            counts += torch.bincount(chosen, minlength=k)
            assignment.append(chosen)
            distances.append(squared.gather(1, chosen[:, None])[:, 0])
        assignment, distances = torch.cat(assignment), torch.cat(distances)
        history.append(float((counts[assignment] * distances).sum()))
        assert (counts > 0).all()  # no repair in this problem
        for n in weights:
            for c in range(k):
                own = assignment == c
                if update == "means":
                    centres[n][c] = torch.outer(
                        deltas[n][own].mean(0), activations[n][own].mean(0)
                    ).detach()
                else:
                    u, s, vh = torch.linalg.svd(gradients[n][own].mean(0))
                    centres[n][c] = s[0] * torch.outer(u[:, 0], vh[0])
    assert torch.equal(found.assignment, assignment)
    assert found.history == pytest.approx(history)
    assert found.cap is None


def test_distances_at_convolutions_are_to_the_centres_themselves():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2),
        nn.ReLU(),
        nn.Conv2d(4, 3, 2),
        nn.Flatten(),
    ).double()
    images = torch.randn(7, 2, 6, 6, dtype=torch.float64)

    def loss(model, batch):
        return model(batch[0]).square().sum(1)

    data = TensorDataset(images)
    batches = [(torch.arange(7), [images])]
    run = _Run(Rank1(update="svd", rank=2), model, loss, lambda: batches, 3, torch.Generator())
    run.update(torch.tensor([0, 0, 1, 1, 1, 2, 2]))
    factors = dict(run._parts([images]))
    gradients = network_gradients(
        model, lambda m, n: loss(m, [images[n : n + 1]])[0], examples=len(data)
    )
    expected = 0
    for name in factors:
        centre = torch.einsum("kro,kri->koi", run.left[name], run.right[name]).flatten(1)
        flat = gradients[name].flatten(1)
        expected = expected + (flat[:, None] - centre).square().sum(2)
        mean = flat[:2].mean(0).reshape(gradients[name].shape[1], -1)
        u, s, vh = torch.linalg.svd(mean, full_matrices=False)
        nearest = (u[:, :2] * s[:2]) @ vh[:2]
        torch.testing.assert_close(centre[0], nearest.flatten())
    torch.testing.assert_close(run.distances(factors.items()), expected)
    for part in factors.values():
        a, d = part.factors()
        torch.testing.assert_close(part.mean_activations(), a.mean((1, 2)))
        torch.testing.assert_close(part.summed_gradients(), d.sum(2).flatten(1))


def test_full_rank_centres_are_the_means():
    means = torch.randn(3, 4, 5, dtype=torch.float64)
    left, right = _truncated(means, 9)
    torch.testing.assert_close(torch.einsum("kro,kri->koi", left, right), means)


@pytest.mark.parametrize(
    "engine",
    [
        Rank1(online=True, iterations=4),
        Rank1(weighted=False),
        Rank1(layers=("3",)),
        Rank1(update="svd", rank=2),
    ],
)
def test_variants_of_the_thesis_engine_beat_a_random_partition(engine):
    generator = torch.Generator().manual_seed(0)
    model = mlp((6, 5, 3), generator=generator)
    centres = 3 * torch.randn(4, 6, generator=generator)
    kind = torch.arange(80) % 4
    data = TensorDataset(
        centres[kind] + 0.1 * torch.randn(80, 6, generator=generator), kind.clamp_max(2)
    )
    found = cluster_gradients(model, losses, data, n_clusters=4, engine=engine)
    gradients = flat_gradients(model, data)
    shuffled = found.assignment[torch.randperm(80, generator=generator)]
    assert objective(gradients, found.assignment) < 0.8 * objective(gradients, shuffled)


def test_an_empty_cluster_takes_half_of_the_most_distorted():
    model, data = problem()
    run = _Run(Rank1(), model, losses, lambda: [], 3, torch.Generator().manual_seed(0))
    assignment = torch.tensor([0] * 10 + [2] * 14)
    distances = torch.cat([torch.full((10,), 9.0), torch.full((14,), 1.0)])
    repaired = run.repair(assignment, distances)
    assert torch.bincount(repaired).tolist() == [5, 5, 14]
    assert torch.equal(run.repair(repaired, distances), repaired)
    assert len(data) == 24


def test_a_subset_of_layers_sees_those_layers_alone():
    model, _ = problem()
    run = _Run(Rank1(layers=("3",)), model, losses, lambda: [], 2, torch.Generator())
    assert list(run.left) == ["3.weight"]


def test_the_thesis_engine_may_leave_clusters_empty():
    model, data = problem(5)
    found = cluster_gradients(model, losses, data, n_clusters=8, engine="rank1")
    assert int(found.sizes.sum()) == 5
    assert len(found.sizes) == 8


def test_a_model_without_matrices_is_not_for_the_thesis_engine():
    model = nn.Sequential(nn.LayerNorm(6))
    with pytest.raises(InputError, match='engine="sketch"'):
        cluster_gradients(model, losses, problem()[1], n_clusters=2, engine="rank1")
