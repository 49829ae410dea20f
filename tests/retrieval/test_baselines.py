"""The baselines: two radii by their formula, canonical correlation by its definition."""

import pytest
import torch

from strop.retrieval import cca, pairwise_hinge_loss, retrieval_metrics
from strop.support import InputError


def test_pairwise_hinge_is_its_formula_pair_by_pair(generator):
    images = torch.randn(5, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    captions = torch.randn(5, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    ids = [0, 1, 1, 2, 3]
    expected = torch.zeros((), dtype=torch.float64)
    for b in range(5):
        for n in range(5):
            distance = (images[b] / images[b].norm() - captions[n] / captions[n].norm()).norm()
            if b == n:
                expected = expected + (distance - 0.4).clamp(min=0)
            elif ids[b] != ids[n]:
                expected = expected + (1.1 - distance).clamp(min=0)
    loss = pairwise_hinge_loss(
        images, captions, positive_radius=0.4, negative_radius=1.1,
        image_ids=torch.tensor(ids), reduction="sum",
    )  # fmt: skip
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(
        torch.autograd.grad(loss, (images, captions)),
        torch.autograd.grad(expected, (images, captions)),
    )


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_coinciding_points_give_finite_gradients(value):
    images = torch.full((3, 4), value, requires_grad=True)
    captions = torch.full((3, 4), value, requires_grad=True)
    pairwise_hinge_loss(images, captions).backward()
    assert images.grad.isfinite().all()
    assert captions.grad.isfinite().all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"positive_radius": 1.0, "negative_radius": 0.5}, "positive_radius < negative_radius"),
        ({"reduction": "none"}, "reduction must be"),
    ],
)
def test_wrong_arguments_of_the_pairwise_hinge_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        pairwise_hinge_loss(torch.ones(2, 3), torch.ones(2, 3), **arguments)


def views(generator, count=2000):
    """Two views of one meaning, with noise of their own."""
    meaning = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    images = meaning @ torch.randn(3, 6, generator=generator, dtype=torch.float64)
    captions = meaning @ torch.randn(3, 5, generator=generator, dtype=torch.float64)
    images = images + 0.1 * torch.randn(images.shape, generator=generator, dtype=torch.float64)
    captions = captions + 0.1 * torch.randn(
        captions.shape, generator=generator, dtype=torch.float64
    )
    return images + 7, captions - 3


def test_canonical_variates_are_white_and_correlate_as_told(generator):
    images, captions = views(generator)
    found = cca(images, captions, dim=4, regularisation=0.0)
    left, right = found.embed_images(images), found.embed_captions(captions)
    identity = torch.eye(4, dtype=torch.float64)
    torch.testing.assert_close(left.T @ left / len(left), identity)
    torch.testing.assert_close(right.T @ right / len(right), identity)
    torch.testing.assert_close(left.T @ right / len(left), torch.diag(found.correlations))
    assert (found.correlations[:3] > 0.9).all()
    assert found.correlations[3] < 0.1


def test_no_other_directions_correlate_more(generator):
    images, captions = views(generator, count=300)
    found = cca(images, captions, dim=1, regularisation=0.0)
    for _ in range(200):
        left = images @ torch.randn(6, generator=generator, dtype=torch.float64)
        right = captions @ torch.randn(5, generator=generator, dtype=torch.float64)
        assert torch.corrcoef(torch.stack([left, right]))[0, 1].abs() <= found.correlations[0]


def test_the_joint_space_finds_pairs(generator):
    images, captions = views(generator)
    found = cca(images[:1000], captions[:1000], dim=3)
    scores = retrieval_metrics(
        found.embed_images(images[1000:]), found.embed_captions(captions[1000:]), torch.arange(1000)
    )
    assert scores.text_to_image.recall[10] > 50


def test_constant_and_repeated_features_do_not_matter(generator):
    images, captions = views(generator, count=300)
    padded = torch.cat([images, images[:, :1], torch.ones(300, 1)], dim=1)
    plain = cca(images, captions, dim=3, regularisation=0.0)
    more = cca(padded, captions, dim=3, regularisation=0.0)
    assert more.image_map.isfinite().all()
    torch.testing.assert_close(more.correlations, plain.correlations)


@pytest.mark.parametrize(
    ("shapes", "arguments", "message"),
    [
        (((5, 3), (4, 3)), {"dim": 1}, r"\(5, 3\) and \(4, 3\)"),
        (((5, 3), (5, 2)), {"dim": 3}, "between 1 and 2"),
        (((5, 3), (5, 2)), {"dim": 1, "regularisation": -1.0}, "regularisation >= 0"),
    ],
)
def test_wrong_arguments_of_cca_are_named(shapes, arguments, message):
    with pytest.raises(InputError, match=message):
        cca(*(torch.ones(shape) for shape in shapes), **arguments)
