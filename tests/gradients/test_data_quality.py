"""Duplicates and wrong labels, planted and found."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss, one_hot
from torch.utils.data import TensorDataset

from gradients.gradient_oracle import network_gradients
from strop.data import blobs, corrupt_labels, duplicate, read_images, sample
from strop.gradients import View, find_duplicates, gradient_evidence, inspect, score_labels
from strop.gradients.duplicates import close_groups
from strop.gradients.folds import picture_loss, train_small
from strop.gradients.mislabels import neighbour_votes
from strop.support import InputError


def classification(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return cross_entropy(model(batch[0]), batch[1], reduction="none")


def small_model(inputs: int = 6, classes: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 12), nn.Tanh(), nn.Linear(12, classes))


def labelled(examples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    points = torch.randn(examples, 6, generator=generator)
    return points, torch.randint(3, (examples,), generator=generator)


def test_evidence_is_what_single_gradients_tell(generator: torch.Generator) -> None:
    model, (points, labels) = small_model(), labelled(9, generator)
    evidence = gradient_evidence(
        model, classification, TensorDataset(points, labels), generator=generator, batch_size=4
    )
    rows = network_gradients(
        model,
        lambda m, n: classification(m, (points[n : n + 1], labels[n : n + 1]))[0],
        examples=9,
    )
    flat = torch.cat([row.flatten(1) for row in rows.values()], dim=1)
    torch.testing.assert_close(evidence.norms, flat.norm(dim=1))
    torch.testing.assert_close(evidence.features, torch.tanh(model[0](points)).detach())
    torch.testing.assert_close(evidence.logits, model(points).detach())
    assert torch.equal(evidence.labels, labels)
    # A sketch keeps inner products up to 1 / sqrt(256) of the norms.
    error = evidence.sketches @ evidence.sketches.T - flat @ flat.T
    assert float(error.abs().max() / flat.norm(dim=1).max() ** 2) < 0.5


def test_evidence_leaves_the_model_as_it_was(generator: torch.Generator) -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 3))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    data = TensorDataset(*labelled(7, generator))
    gradient_evidence(model, classification, data, generator=generator)
    assert model.training
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_loss_that_is_no_cross_entropy_tells_no_labels(generator: torch.Generator) -> None:
    points, labels = labelled(8, generator)
    evidence = gradient_evidence(
        small_model(),
        lambda model, batch: mse_loss(
            model(batch[0]), one_hot(batch[1], 3).float(), reduction="none"
        ).mean(1),
        TensorDataset(points, labels),
        generator=generator,
    )
    assert evidence.labels is None
    assert evidence.features.shape == (8, 12)


def test_labels_are_told_where_gradients_have_vanished(generator: torch.Generator) -> None:
    labels = torch.arange(12) % 3
    points = 1000 * one_hot(labels, 3).float()
    model = nn.Linear(3, 3)
    with torch.no_grad():
        model.weight.copy_(torch.eye(3))
    evidence = gradient_evidence(
        model, classification, TensorDataset(points, labels), generator=generator
    )
    assert not evidence.norms.any()
    assert torch.equal(evidence.labels, labels)


def test_labels_of_another_loss_can_be_given(generator: torch.Generator) -> None:
    points, labels = labelled(30, generator)
    report = inspect(
        small_model(),
        lambda model, batch: cross_entropy(
            model(batch[0]), batch[1], reduction="none", label_smoothing=0.1
        ),
        TensorDataset(points, labels),
        generator=generator,
        n_clusters=2,
        labels=labels,
    )
    assert report.scores is not None
    assert torch.equal(report.scores.labels, labels)


def test_positions_that_do_not_matter_leave_no_trace_in_features(
    generator: torch.Generator,
) -> None:
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 10))
    tokens = torch.tensor([[1, 2, 3, 0], [1, 2, 3, 7]])
    targets = torch.tensor([[2, 3, 4, -100], [2, 3, 4, -100]])

    def losses(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return cross_entropy(model(batch[0]).mT, batch[1], reduction="none").sum(1) / 3

    evidence = gradient_evidence(model, losses, TensorDataset(tokens, targets), generator=generator)
    torch.testing.assert_close(evidence.features[0], evidence.features[1])


@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 10_000), st.floats(0, 1))
def test_close_groups_are_the_components_of_the_graph(
    count: int, width: int, seed: int, tolerance: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randint(-3, 4, (count, width), generator=generator).float()
    found = close_groups(vectors, tolerance=tolerance)
    norms = vectors.norm(dim=1)
    floor = 100 * torch.finfo(torch.float32).eps * norms.max()
    component = list(range(count))
    for _ in range(count):
        for i in range(count):
            for j in range(count):
                reach = tolerance * max(norms[i], norms[j], floor)
                if (vectors[i] - vectors[j]).norm() <= reach:
                    component[i] = component[j] = min(component[i], component[j])
    expected = [
        tuple(i for i in range(count) if component[i] == root)
        for root in sorted(set(component))
        if component.count(root) > 1
    ]
    assert found == sorted(expected)


@pytest.mark.parametrize("steps", [0, 400])
def test_planted_duplicates_are_found_exactly(steps: int, generator: torch.Generator) -> None:
    model, (points, labels) = small_model(), labelled(200, generator)
    labels = (points[:, 0] > 0).long()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(steps):  # at the end most gradients have vanished
        optimizer.zero_grad()
        classification(model, (points, labels)).mean().backward()
        optimizer.step()
    order = torch.cat([torch.arange(200), torch.tensor([3, 3, 50, 120])])
    order = order[torch.randperm(len(order), generator=generator)]
    data = TensorDataset(points[order], labels[order])
    evidence = gradient_evidence(model, classification, data, generator=generator, batch_size=37)
    found = find_duplicates(model, classification, data, evidence=evidence)
    expected = sorted(tuple((order == of).nonzero().flatten().tolist()) for of in (3, 50, 120))
    assert list(found.groups) == expected
    assert not found.conflicts
    assert found.redundant == 4


def test_one_input_with_two_labels_is_a_conflict(generator: torch.Generator) -> None:
    model, (points, labels) = small_model(), labelled(30, generator)
    points = torch.cat([points, points[:2], points[:1]])
    labels = torch.cat([labels, (labels[:1] + 1) % 3, labels[1:2], labels[:1]])
    data = TensorDataset(points, labels)
    evidence = gradient_evidence(model, classification, data, generator=generator)
    found = find_duplicates(model, classification, data, evidence=evidence)
    assert found.conflicts == ((0, 30, 32),)
    assert found.groups == ((0, 32), (1, 31))


def test_neighbours_vote_without_the_example_itself(generator: torch.Generator) -> None:
    features, labels = torch.randn(50, 3, generator=generator), torch.randint(4, (50,))
    votes = neighbour_votes(features, labels, classes=4, neighbours=7)
    torch.testing.assert_close(votes.sum(1), torch.ones(50, dtype=torch.float64))
    changed = labels.clone()
    changed[11] = (labels[11] + 1) % 4
    after = neighbour_votes(features, changed, classes=4, neighbours=7)
    # Only the prior, the frequency of classes, knows of the change.
    assert float((after[11] - votes[11]).abs().max()) < 0.01


def test_wrong_labels_come_first_even_when_learnt_by_heart(generator: torch.Generator) -> None:
    drawn = blobs(classes=3, count=300, dimension=6, separation=6.0, generator=generator)
    points, true = drawn.points.float(), drawn.labels
    wrong = torch.randperm(300, generator=generator)[:15]
    labels = true.clone()
    labels[wrong] = (labels[wrong] + 1) % 3
    model = small_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(600):
        optimizer.zero_grad()
        classification(model, (points, labels)).mean().backward()
        optimizer.step()
    evidence = gradient_evidence(
        model, classification, TensorDataset(points, labels), generator=generator
    )
    scores = score_labels([View(evidence.logits, evidence.features)], labels)
    confidence = evidence.logits.softmax(1).gather(1, labels[:, None]).squeeze(1)
    planted = set(wrong.tolist())
    found = len(planted & set(scores.ranking[:15].tolist()))
    assert found >= 12
    assert len(planted & set(confidence.argsort()[:15].tolist())) < found  # the network alone
    assert (scores.suggested[wrong] == true[wrong]).float().mean() > 0.9


@pytest.mark.slow
def test_what_is_planted_in_mnist_is_found(
    real_data: Callable[[str], Path], generator: torch.Generator
) -> None:
    data = sample(read_images(real_data("mnist")), count=2000, generator=generator)
    data = corrupt_labels(data, share=0.05, generator=generator)
    data = duplicate(data, range(20), copies=1)
    model = train_small(data, generator=generator, epochs=6)
    evidence = gradient_evidence(model, picture_loss, data, generator=generator)
    found = find_duplicates(model, picture_loss, data, evidence=evidence)
    assert found.groups == tuple((row, 2000 + row) for row in range(20))
    scores = score_labels([evidence.view], data.labels)
    planted = int(data.corrupted.sum())
    assert data.corrupted[scores.ranking[:planted]].double().mean() > 0.75


def test_several_views_are_averaged(generator: torch.Generator) -> None:
    labels = torch.randint(3, (40,), generator=generator)
    views = [
        View(torch.randn(40, 3, generator=generator), torch.randn(40, 2, generator=generator))
        for _ in range(2)
    ]
    alone = [score_labels([view], labels) for view in views]
    twice = score_labels([views[0], views[0]], labels)
    torch.testing.assert_close(alone[0].belief, twice.belief)
    both = score_labels(views, labels)
    assert not torch.allclose(both.belief, alone[0].belief)
    assert (both.suggested != labels).all()


def test_labels_without_a_logit_are_refused() -> None:
    with pytest.raises(InputError, match="labels from 0 to 1"):
        score_labels([View(torch.zeros(2, 2), torch.zeros(2, 1))], torch.tensor([0, 2]))
    with pytest.raises(InputError, match="at least one view"):
        score_labels([], torch.tensor([0, 1]))
