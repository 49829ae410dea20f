"""Synthetic data of the thesis: separable Gaussians, a Random Features teacher, blobs.

Letters: n points, d inputs, t features of the teacher.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset

from strop.support import InputError


@dataclass(frozen=True, eq=False)
class LabelledPoints(Dataset[tuple[Tensor, Tensor]]):
    """Points with class labels: a torch ``Dataset`` of (point, label).

    Attributes:
        points: (n, d).
        labels: (n,) class numbers 0, 1, ….
        origin: (n,) equal numbers for copies of one point, otherwise each its own.
    """

    points: Tensor
    labels: Tensor
    origin: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.points[index], self.labels[index]

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return (self[index] for index in range(len(self)))

    @property
    def signs(self) -> Tensor:
        """(n,) labels of two classes as -1 and +1, in the dtype of the points."""
        if len(self) and int(self.labels.max()) > 1:
            raise InputError(
                "expected two classes to write as -1 and +1, "
                f"but there are {int(self.labels.max()) + 1}; use labels"
            )
        return 2 * self.labels.to(self.points.dtype) - 1


@dataclass(frozen=True, eq=False)
class SeparableGaussian(LabelledPoints):
    """Gaussian points and the separator (d,) that labelled them."""

    separator: Tensor


@dataclass(frozen=True, eq=False)
class RandomFeaturesTeacher:
    """y = sign(ReLU(x F) v + b), the teacher of thesis section 4.4.2.

    ``features`` F (d, t) has columns of l2 norm 1; ``weights`` v (t,) and ``bias`` b () are drawn
    from N(0, 1), and so is F before it is scaled.
    """

    features: Tensor
    weights: Tensor
    bias: Tensor

    def logits(self, points: Tensor) -> Tensor:
        """(n, d) points to (n,) values whose sign is the label."""
        return torch.relu(points @ self.features) @ self.weights + self.bias


@dataclass(frozen=True, eq=False)
class TeacherPoints(LabelledPoints):
    """Gaussian points, the teacher that labelled them, and the threshold on its output."""

    teacher: RandomFeaturesTeacher
    threshold: float


@dataclass(frozen=True, eq=False)
class Blobs(LabelledPoints):
    """Points around centres (k, d), one centre a class."""

    centres: Tensor


def separable_gaussian(
    *,
    count: int,
    dimension: int,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> SeparableGaussian:
    """x_i ~ N(0, I) in R^d, w ~ N(0, I), y_i = sign(w . x_i): a hyperplane separates them.

    Thesis appendix B, "Details of Linear Classification Experiments"; there d > n.

    >>> data = separable_gaussian(count=20, dimension=50, generator=torch.Generator())
    >>> bool((data.signs * (data.points @ data.separator) > 0).all())
    True
    """
    _require_positive(count=count, dimension=dimension)
    separator = torch.randn(dimension, generator=generator, dtype=dtype)
    points = torch.randn(count, dimension, generator=generator, dtype=dtype)
    labels = (points @ separator > 0).to(torch.long)
    return SeparableGaussian(points, labels, torch.arange(count), separator)


def random_features_teacher(
    *,
    dimension: int,
    features: int,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float32,
) -> RandomFeaturesTeacher:
    """A teacher with ``features`` hidden units on inputs in R^d; see the class.

    The features are of unit norm as the thesis says; its published code left them unscaled, which
    makes the output larger and so the bias matter less.

    >>> teacher = random_features_teacher(dimension=4, features=3, generator=torch.Generator())
    >>> torch.allclose(teacher.features.norm(dim=0), torch.ones(3))
    True
    """
    _require_positive(dimension=dimension, features=features)
    directions = torch.randn(dimension, features, generator=generator, dtype=dtype)
    return RandomFeaturesTeacher(
        features=directions / directions.norm(dim=0),
        weights=torch.randn(features, generator=generator, dtype=dtype),
        bias=torch.randn((), generator=generator, dtype=dtype),
    )


def teacher_points(
    teacher: RandomFeaturesTeacher,
    *,
    count: int,
    generator: torch.Generator,
    duplicates: float = 0.0,
    duplicated_points: int = 5,
    centred: bool = False,
) -> TeacherPoints:
    """x_i ~ N(0, I) labelled by a teacher, some of them repeated.

    With ``duplicates`` = 0.1, 0.5 or 0.9 (thesis section 4.4.3, figure 4.8), ``duplicated_points``
    points are repeated equally until they make up that share of the ``count`` points; the others
    are all different. All copies of a point share their ``origin``.

    ReLU features have a mean, so a teacher's output is not centred at zero, and the sign in the
    thesis's text makes classes of unequal size. ``centred`` labels by whether the output is above
    its mean over the points drawn, as the thesis's published code does.

    Args:
        teacher: what labels the points.
        count: N, all copies counted.
        generator: where the points come from.
        duplicates: share of the points that are copies of the few repeated ones.
        duplicated_points: how many points are repeated.
        centred: threshold at the mean output instead of at zero.

    >>> g = torch.Generator().manual_seed(0)
    >>> teacher = random_features_teacher(dimension=4, features=3, generator=g)
    >>> data = teacher_points(teacher, count=100, duplicates=0.5, generator=g)
    >>> data.origin.bincount().sort(descending=True).values[:7].tolist()
    [10, 10, 10, 10, 10, 1, 1]
    """
    _require_positive(count=count, duplicated_points=duplicated_points)
    if not 0 <= duplicates <= 1:
        raise InputError(
            f"expected a share of duplicates from 0 to 1, but came {duplicates}; "
            "10 % are written duplicates=0.1"
        )
    copies = round(duplicates * count)
    repeated = min(duplicated_points, copies)
    origin = torch.cat(
        [torch.arange(copies) % max(repeated, 1), repeated + torch.arange(count - copies)]
    )
    different = torch.randn(
        repeated + count - copies,
        len(teacher.features),
        generator=generator,
        dtype=teacher.features.dtype,
    )
    order = torch.randperm(count, generator=generator)
    origin = origin[order]
    points = different[origin]
    output = teacher.logits(different)[origin]
    threshold = float(output.mean()) if centred else 0.0
    labels = (output > threshold).to(torch.long)
    return TeacherPoints(points, labels, origin, teacher, threshold)


def blobs(
    *,
    count: int,
    generator: torch.Generator,
    classes: int = 2,
    dimension: int = 2,
    separation: float = 4.0,
    dtype: torch.dtype = torch.float32,
) -> Blobs:
    """Balanced classes of points ~ N(centre, I), the centres evenly round a circle.

    The circle lies in the first two dimensions, centred at the origin; ``separation`` is the
    distance between neighbouring centres (with two classes, between the two).

    >>> data = blobs(count=6, classes=3, generator=torch.Generator())
    >>> data.labels.bincount()
    tensor([2, 2, 2])
    >>> (data.centres[0] - data.centres[1]).norm()
    tensor(4.)
    """
    _require_positive(count=count, classes=classes)
    if dimension < 2 or not separation > 0:
        raise InputError(
            "expected at least two dimensions and a positive separation, "
            f"but came {dimension} and {separation}"
        )
    angles = 2 * torch.pi * torch.arange(classes, dtype=dtype) / classes
    half_angle = torch.tensor(torch.pi / max(classes, 2), dtype=dtype)
    radius = separation / (2 * torch.sin(half_angle))
    centres = torch.zeros(classes, dimension, dtype=dtype)
    centres[:, 0], centres[:, 1] = radius * torch.cos(angles), radius * torch.sin(angles)
    labels = torch.randperm(count, generator=generator) % classes
    noise = torch.randn(count, dimension, generator=generator, dtype=dtype)
    return Blobs(centres[labels] + noise, labels, torch.arange(count), centres)


def _require_positive(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise InputError(f"expected {name} of 1 or more, but came {value}")
