"""Collapse is told from a slow start, on trainings that really do either."""

import warnings

import pytest
import torch
from torch import nn

from strop.retrieval import (
    AnnealedTemperature,
    AnnealedTopK,
    CollapseDetector,
    CollapseError,
    MaxOfHinges,
    SoftmaxHinges,
    SumOfHinges,
    TopKHinges,
    WarmStart,
    collapsed_loss,
    contrastive_hinge_loss,
    retrieval_metrics,
)
from strop.support import InputError


@pytest.mark.parametrize(
    ("mining", "k"),
    [("sum", None), ("max", None), ("topk", 3), ("softmax", None), ("semi-hard", None)],
)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_collapsed_loss_is_the_loss_of_equal_embeddings(mining, k, reduction):
    point = torch.full((6, 3), 0.7, dtype=torch.float64)
    loss = contrastive_hinge_loss(point, point, mining=mining, k=k, margin=0.3, reduction=reduction)
    expected = collapsed_loss(batch_size=6, mining=mining, k=k, margin=0.3, reduction=reduction)
    assert loss.item() == pytest.approx(expected, abs=1e-12)


class Toy:
    """Noisy views of common meanings, 64 and 48 numbers wide; two encoders trained together.

    Deep encoders of inputs with a common offset map all inputs nearly alike at first, and MH at a
    high learning rate then draws them together for good.
    """

    def __init__(self, *, depth: int, noise: float, offset: float) -> None:
        torch.manual_seed(0)
        meanings = torch.randn(2000, 12)
        self.views = [
            torch.tanh(meanings @ torch.randn(12, width) / 3)
            + noise * torch.randn(2000, width)
            + offset
            for width in (64, 48)
        ]
        self.encoders = [self._encoder(width, depth) for width in (64, 48)]

    def _encoder(self, width: int, depth: int) -> nn.Module:
        layers: list[nn.Module] = []
        for layer in range(depth):
            layers += [nn.Linear(64 if layer else width, 64), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(64, 32))

    def train(self, mining, *, learning_rate, steps, detector):
        """The loss of every step, and the step at which a collapse was told."""
        parameters = [weight for encoder in self.encoders for weight in encoder.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=learning_rate)
        losses, told = [], None
        for step in range(steps):
            rows = torch.randint(2000, (64,))
            images, captions = (
                encoder(view[rows]) for encoder, view in zip(self.encoders, self.views, strict=True)
            )
            loss = contrastive_hinge_loss(images, captions, mining=mining, image_ids=rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if detector.update(images, captions, rows) is not None and told is None:
                told = step
        return losses, told

    @torch.no_grad()
    def recall(self) -> float:
        images, captions = (
            encoder(view[:500]) for encoder, view in zip(self.encoders, self.views, strict=True)
        )
        return retrieval_metrics(images, captions, torch.arange(500)).text_to_image.recall[10]


def test_a_collapsing_training_is_told_soon_and_rightly():
    toy = Toy(depth=3, noise=1.0, offset=2.0)
    detector = CollapseDetector(on_collapse="ignore")
    losses, told = toy.train("max", learning_rate=3e-3, steps=500, detector=detector)
    assert told is not None
    assert told < 200
    at_collapse = collapsed_loss(batch_size=64, mining="max")
    assert losses[told] == pytest.approx(at_collapse, rel=0.01)
    assert losses[-1] == pytest.approx(at_collapse, rel=0.01)  # it was no false alarm
    assert toy.recall() < 6  # chance is 2


def test_the_remedy_that_is_named_helps():
    toy = Toy(depth=3, noise=1.0, offset=2.0)
    detector = CollapseDetector(on_collapse="ignore")
    _, told = toy.train("softmax", learning_rate=3e-3, steps=500, detector=detector)
    assert told is None
    assert toy.recall() > 50


def test_a_slow_start_is_left_alone():
    toy = Toy(depth=2, noise=0.7, offset=0.0)
    detector = CollapseDetector(on_collapse="ignore")
    early, told = toy.train("max", learning_rate=2e-3, steps=300, detector=detector)
    assert told is None
    # For hundreds of steps it looks like a collapse: the loss, and similarities that hardly differ.
    at_collapse = collapsed_loss(batch_size=64, mining="max")
    assert min(early) > 0.99 * at_collapse
    assert sum(early[-50:]) / 50 == pytest.approx(at_collapse, rel=0.01)
    assert detector._seen[-1][0] < 0.01
    late, told = toy.train("max", learning_rate=2e-3, steps=900, detector=detector)
    assert told is None
    assert late[-1] < at_collapse / 2
    assert toy.recall() > 50


def collapsed_batches(detector, steps=100):
    point = torch.ones(8, 4)
    for _ in range(steps):
        detector.update(point, point)


def test_asked_to_stop_it_stops_with_the_remedy():
    with pytest.raises(CollapseError, match="mining='softmax'"):
        collapsed_batches(CollapseDetector())


def test_asked_to_warn_it_warns_once_and_goes_on():
    detector = CollapseDetector(on_collapse="warn")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        collapsed_batches(detector, steps=300)
    assert len(caught) == 1
    assert "mining='softmax'" in str(caught[0].message)
    assert detector.collapse is not None


@pytest.mark.parametrize("similarity", ["cosine", "dot", "order", "order-abs"])
def test_zero_embeddings_are_a_collapse_under_every_similarity(similarity):
    detector = CollapseDetector(similarity=similarity, on_collapse="ignore", window=10)
    for _ in range(10):
        seen = detector.update(torch.zeros(5, 3), torch.zeros(5, 3))
    assert seen is not None
    assert (seen.spread, seen.wins) == (0.0, 0.5)


def test_captions_of_the_same_image_are_no_negatives_here_either():
    detector = CollapseDetector(on_collapse="ignore", window=10)
    images = torch.eye(2).repeat(3, 1)
    ids = torch.tensor([0, 1]).repeat(3)
    for _ in range(10):
        assert detector.update(images, images, ids) is None
    assert torch.stack(list(detector._seen))[:, 1:].max() == 1.0
    assert all(row[1] in (0.0, 1.0) for row in detector._seen)


def test_a_detector_that_comes_back_from_its_state_fires_when_it_would_have():
    point = torch.ones(8, 4)
    first = CollapseDetector(window=20, on_collapse="ignore")
    for _ in range(13):
        first.update(point, point)
    again = CollapseDetector(window=20, on_collapse="ignore")
    again.load_state_dict(first.state_dict())
    found = [[one.update(point, point) for _ in range(10)] for one in (first, again)]
    assert found[0] == found[1]
    assert found[0][-1] is not None
    later = CollapseDetector(window=20, on_collapse="ignore")
    later.load_state_dict(first.state_dict())
    assert later.collapse == first.collapse


def test_single_pairs_say_nothing():
    detector = CollapseDetector(window=10)
    for _ in range(20):
        assert detector.update(torch.ones(1, 3), torch.ones(1, 3)) is None


def test_watching_leaves_no_graph_and_no_change():
    images = torch.randn(6, 3, requires_grad=True)
    captions = torch.randn(6, 3, requires_grad=True)
    before = images.detach().clone(), torch.get_rng_state()
    CollapseDetector().update(images, captions)
    assert torch.equal(images, before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"window": 5}, "at least 10"), ({"on_collapse": "panic"}, "'stop', 'warn' or 'ignore'")],
)
def test_wrong_arguments_of_the_detector_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        CollapseDetector(**arguments)


def test_schedules_begin_soft_and_end_hard():
    assert WarmStart(epochs=3)(0) == SumOfHinges()
    assert WarmStart(epochs=3, then=SoftmaxHinges(0.05))(3) == SoftmaxHinges(0.05)
    top = AnnealedTopK(start=127, epochs=10)
    sizes = [top(epoch / 4).k for epoch in range(60)]
    assert sizes[0] == 127
    assert sizes[-1] == 1
    assert sizes == sorted(sizes, reverse=True)
    soft = AnnealedTemperature(start=1.0, stop=0.02, epochs=10)
    assert soft(0) == SoftmaxHinges(1.0)
    assert soft(10).temperature == pytest.approx(0.02)
    assert isinstance(top(99), TopKHinges)


def test_schedules_drive_the_loss():
    images, captions = torch.randn(2, 8, 4)
    for epoch, mining in ((0, "sum"), (5, "max")):
        scheduled = contrastive_hinge_loss(images, captions, mining=WarmStart(epochs=5)(epoch))
        assert scheduled == contrastive_hinge_loss(images, captions, mining=mining)
    assert WarmStart(epochs=0)(0) == MaxOfHinges()


@pytest.mark.parametrize(
    "make",
    [
        lambda: AnnealedTopK(start=0, epochs=5),
        lambda: AnnealedTopK(start=5, epochs=0),
        lambda: AnnealedTemperature(start=0.1, stop=1.0, epochs=5),
        lambda: AnnealedTemperature(start=0.1, stop=0.0, epochs=5),
    ],
)
def test_schedules_that_lead_nowhere_are_named(make):
    with pytest.raises(InputError, match="start >= stop > 0"):
        make()
