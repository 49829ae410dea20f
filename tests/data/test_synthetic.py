"""Synthetic data: distributed and labelled as the thesis says, and repeatable."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from strop.data import (
    LabelledPoints,
    RandomFeaturesTeacher,
    blobs,
    random_features_teacher,
    separable_gaussian,
    teacher_points,
)
from strop.support import InputError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def teacher(*, dimension: int = 6, features: int = 9) -> RandomFeaturesTeacher:
    return random_features_teacher(dimension=dimension, features=features, generator=seeded(5))


@given(count=st.integers(1, 30), dimension=st.integers(1, 60), seed=st.integers(0, 50))
def test_the_separator_separates(count: int, dimension: int, seed: int) -> None:
    data = separable_gaussian(count=count, dimension=dimension, generator=seeded(seed))
    assert data.points.shape == (count, dimension)
    assert bool((data.signs * (data.points @ data.separator) >= 0).all())


def test_gaussian_points_are_standard_normal() -> None:
    points = separable_gaussian(count=20_000, dimension=5, generator=seeded()).points
    assert points.mean(dim=0).abs().max() < 0.04
    assert (torch.cov(points.T) - torch.eye(5)).abs().max() < 0.05


def test_the_teacher_is_the_formula_of_the_thesis() -> None:
    made = teacher(dimension=200, features=4_000)
    assert torch.allclose(made.features.norm(dim=0), torch.ones(4_000))
    assert abs(float(made.weights.mean())) < 0.08
    assert float(made.weights.std()) == pytest.approx(1, abs=0.06)
    small = teacher()
    point = torch.randn(6, generator=seeded())
    by_hand = float(small.bias) + sum(
        max(0.0, sum(float(point[i]) * float(small.features[i, j]) for i in range(6)))
        * float(small.weights[j])
        for j in range(9)
    )
    assert float(small.logits(point[None])[0]) == pytest.approx(by_hand, rel=1e-5)


def test_labels_are_the_sign_of_the_teacher() -> None:
    data = teacher_points(teacher(), count=500, generator=seeded())
    assert torch.equal(data.signs, data.teacher.logits(data.points).sign())
    assert data.threshold == 0


def test_centred_labels_are_above_the_mean_output() -> None:
    data = teacher_points(teacher(), count=500, centred=True, generator=seeded())
    output = data.teacher.logits(data.points)
    assert data.threshold == pytest.approx(float(output.mean()), abs=1e-5)
    assert torch.equal(data.labels == 1, output > data.threshold)
    plain = teacher_points(teacher(), count=500, generator=seeded())
    assert torch.equal(data.points, plain.points)
    assert not torch.equal(data.labels, plain.labels)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_five_points_are_repeated_equally_to_the_share(share: float) -> None:
    data = teacher_points(teacher(), count=1_000, duplicates=share, generator=seeded())
    times = data.origin.bincount().sort(descending=True).values
    assert len(data) == 1_000
    assert times[:5].tolist() == [share * 1_000 / 5] * 5
    assert bool((times[5:] == 1).all())
    assert len(times) == 1_000 - share * 1_000 + 5


@given(
    count=st.integers(1, 60),
    share=st.floats(0, 1),
    repeated=st.integers(1, 7),
    seed=st.integers(0, 20),
)
def test_copies_share_origin_point_and_label(
    count: int, share: float, repeated: int, seed: int
) -> None:
    data = teacher_points(
        teacher(),
        count=count,
        duplicates=share,
        duplicated_points=repeated,
        generator=seeded(seed),
    )
    assert len(data) == count
    alike = (data.points[:, None] == data.points[None]).all(dim=2)
    assert torch.equal(alike, data.origin[:, None] == data.origin[None])
    assert bool((data.labels[:, None] == data.labels[None])[alike].all())


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_blobs_lie_round_their_centres(classes: int) -> None:
    data = blobs(count=3_000 * classes, classes=classes, separation=7.0, generator=seeded())
    distances = torch.cdist(data.centres, data.centres).fill_diagonal_(torch.inf)
    assert torch.allclose(distances.min(dim=1).values, torch.full((classes,), 7.0))
    assert data.labels.bincount().tolist() == [3_000] * classes
    for label, centre in enumerate(data.centres):
        own = data.points[data.labels == label]
        assert (own.mean(dim=0) - centre).abs().max() < 0.1
        assert (own.std(dim=0) - 1).abs().max() < 0.08


def test_one_blob_and_more_dimensions() -> None:
    assert blobs(count=4, classes=1, dimension=3, generator=seeded()).points.shape == (4, 3)


MAKERS: list[Callable[[torch.Generator], LabelledPoints]] = [
    lambda g: separable_gaussian(count=9, dimension=4, generator=g),
    lambda g: teacher_points(teacher(), count=9, duplicates=0.6, generator=g),
    lambda g: blobs(count=9, generator=g),
]


@pytest.mark.parametrize("make", MAKERS)
def test_the_generator_alone_decides_the_data(
    make: Callable[[torch.Generator], LabelledPoints],
) -> None:
    torch.manual_seed(1)
    one = make(seeded(3))
    torch.manual_seed(2)
    assert torch.equal(one.points, make(seeded(3)).points)
    assert torch.equal(one.labels, make(seeded(3)).labels)
    assert not torch.equal(one.points, make(seeded(4)).points)


@pytest.mark.parametrize("make", MAKERS)
def test_points_are_a_data_set(make: Callable[[torch.Generator], LabelledPoints]) -> None:
    data = make(seeded())
    points, labels = next(iter(DataLoader(data, batch_size=9)))
    assert torch.equal(points, data.points)
    assert torch.equal(labels, data.labels)
    assert len(list(data)) == 9
    assert torch.equal(data.signs, torch.where(data.labels == 1, 1.0, -1.0))


def test_the_dtype_is_followed() -> None:
    data = separable_gaussian(count=3, dimension=2, generator=seeded(), dtype=torch.float64)
    assert data.points.dtype == data.signs.dtype == torch.float64
    made = random_features_teacher(dimension=2, features=3, generator=seeded(), dtype=torch.float64)
    assert teacher_points(made, count=3, generator=seeded()).points.dtype == torch.float64


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: separable_gaussian(count=0, dimension=1, generator=seeded()), "count of 1"),
        (lambda: teacher(dimension=0), "dimension of 1"),
        (lambda: teacher_points(teacher(), count=9, duplicates=10, generator=seeded()), "0.1"),
        (lambda: blobs(count=9, dimension=1, generator=seeded()), "two dimensions"),
        (lambda: blobs(count=9, classes=3, generator=seeded()).signs, "two classes.*are 3"),
    ],
)
def test_impossible_data_are_refused(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        make()
