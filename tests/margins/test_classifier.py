"""MaxMarginClassifier as data scientists meet it."""

import warnings

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.datasets import load_digits  # noqa: E402
from sklearn.svm import SVC  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

from strop.geometry import L1, Linf, Lp  # noqa: E402
from strop.margins import NotSeparableError  # noqa: E402
from strop.margins.classifier import MaxMarginClassifier, SlackWarning  # noqa: E402


def blobs(classes: int = 3, *, spread: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(classes, 5))
    labels = np.arange(10 * classes) % classes
    return centres[labels] + spread * generator.normal(size=(len(labels), 5)), labels


def test_passes_the_checks_of_scikit_learn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(MaxMarginClassifier(tol=1e-4))


def test_l2_is_the_hard_margin_support_vector_machine() -> None:
    digits, labels = load_digits(return_X_y=True)
    keep = labels < 2
    points, target = digits[keep] / 16, labels[keep]
    ours = MaxMarginClassifier("l2").fit(points, target)
    peer = SVC(kernel="linear", C=1e8, tol=1e-8).fit(points, target)
    assert ours.gap_ <= 1e-6
    assert ours.margin_ == pytest.approx(1 / np.linalg.norm(peer.coef_), rel=1e-4)
    assert np.allclose(ours.coef_[0] / ours.margin_, peer.coef_[0], atol=1e-3)
    assert set(peer.support_) <= set(ours.support_)


@pytest.mark.parametrize("attack", ["l1", "l2", "linf", "fourier-linf", Lp(3)])
def test_radius_and_robust_score_are_exact(attack: object) -> None:
    points, labels = blobs(2)
    model = MaxMarginClassifier(attack, tol=1e-5).fit(points, labels)
    assert model.certified_radius(points).min() == pytest.approx(model.margin_, rel=1e-6)
    assert model.robust_score(points, labels, eps=0.999 * model.margin_) == 1.0
    assert model.robust_score(points, labels, eps=1.001 * model.margin_) < 1.0
    assert "solved" in model.status_


def test_each_classifier_is_best_against_its_own_attack() -> None:
    points, labels = blobs(2, spread=0.4)
    names = ("l1", "l2", "linf", "fourier-linf")
    models = {name: MaxMarginClassifier(name).fit(points, labels) for name in names}
    for attack in names:
        radii = {}
        for name, model in models.items():
            judge = MaxMarginClassifier(attack)
            judge.__dict__.update(model.__dict__ | {"attack_norm": attack})
            radii[name] = judge.certified_radius(points).min()
        assert max(radii.values()) <= radii[attack] * (1 + 1e-5)


@pytest.mark.parametrize("kind", ["ovr", "joint"])
def test_several_classes(kind: str) -> None:
    points, labels = blobs(4)
    names = np.array(["ash", "birch", "cedar", "date"])[labels]
    model = MaxMarginClassifier("linf", multi_class=kind, tol=1e-5).fit(points, names)
    assert model.score(points, names) == 1.0
    assert model.decision_function(points).shape == (40, 4)
    assert model.gap_ <= 1e-5
    assert model.robust_score(points, names, eps=0.999 * model.margin_) == 1.0
    other = MaxMarginClassifier("linf", multi_class="ovr").fit(points, names)
    if kind == "joint":
        assert model.certified_radius(points).min() >= model.margin_ * (1 - 1e-6)
    else:
        assert model.margin_ == pytest.approx(other.certified_radius(points).min())


def test_joint_with_two_classes_is_the_margin() -> None:
    from strop.margins.joint import joint_margin

    points, labels = blobs(2)
    torch = pytest.importorskip("torch")
    for attack, name in ((Linf, "linf"), (L1, "l1")):
        joint = joint_margin(torch.as_tensor(points), torch.as_tensor(labels), attack=attack)
        binary = MaxMarginClassifier(name).fit(points, labels)
        assert joint.margin == pytest.approx(binary.margin_, rel=1e-5)
        assert joint.upper == pytest.approx(binary.margin_, rel=1e-5)


def test_joint_certificate_is_one_whatever_the_solver_left() -> None:
    from strop.margins.joint import _feasible

    generator = np.random.default_rng(0)
    labels = np.array([0, 1, 2, 0, 1, 0, 2, 2])
    rough = generator.uniform(-0.1, 1, size=(8, 3))
    rough[np.arange(8), labels] = 0
    mixture = _feasible(rough, labels, balanced=True, slack=0.7)
    assert mixture.min() >= 0
    assert mixture.sum() == pytest.approx(1)
    assert (mixture[np.arange(8), labels] == 0).all()
    assert mixture.sum(1).max() <= 1 / (0.7 * 8) + 1e-12
    for k in range(3):
        assert mixture[labels == k].sum() == pytest.approx(mixture[:, k].sum(), abs=1e-12)


def test_joint_slack_is_the_binary_one_and_is_certified() -> None:
    torch = pytest.importorskip("torch")
    from strop.margins import signed_data, solve
    from strop.margins.joint import joint_margin

    generator = np.random.default_rng(0)
    points = generator.normal(size=(24, 3))
    labels = (points[:, 0] + generator.normal(size=24) > 0).astype(int)
    data = signed_data(points, np.where(labels == 1, 1, -1), intercept=True)
    joint = joint_margin(torch.as_tensor(points), torch.as_tensor(labels), attack=L1, slack=0.7)
    assert joint.gap <= 1e-6
    assert joint.margin == pytest.approx(solve(data, attack=L1, slack=0.7).margin, rel=1e-5)


def test_joint_knows_slack_and_shows_why_it_is_needed() -> None:
    generator = np.random.default_rng(0)
    points, labels = generator.normal(size=(30, 2)), np.arange(30) % 3
    with pytest.raises(NotSeparableError) as caught:
        MaxMarginClassifier(multi_class="joint", slack=None).fit(points, labels)
    assert caught.value.certificate.upper < 1e-6
    with pytest.warns(SlackWarning):
        model = MaxMarginClassifier(multi_class="joint", tol=1e-5).fit(points, labels)
    assert "slack" in model.status_
    assert model.gap_ <= 1e-5
    assert model.slack_ > 0
    assert model.margin_ > 0


def test_inseparable_data_are_an_error_a_warning_or_slack() -> None:
    generator = np.random.default_rng(0)
    points, labels = generator.normal(size=(50, 3)), generator.integers(0, 2, 50)
    with pytest.raises(NotSeparableError, match="coincides with a mixture") as caught:
        MaxMarginClassifier(slack=None).fit(points, labels)
    assert isinstance(caught.value, ValueError)
    assert caught.value.certificate.upper < 1e-8
    with pytest.warns(SlackWarning, match="mean hinge loss"):
        model = MaxMarginClassifier().fit(points, labels)
    assert "slack" in model.status_
    assert model.slack_ > 0
    assert model.margin_ > 0
    fixed = MaxMarginClassifier(slack=model.slack_).fit(points, labels)
    assert fixed.margin_ == pytest.approx(model.margin_, rel=1e-6)


def test_wrong_settings_are_named() -> None:
    points, labels = blobs(2)
    with pytest.raises(ValueError, match="attack_norm"):
        MaxMarginClassifier("l7").fit(points, labels)
    with pytest.raises(ValueError, match="multi_class"):
        MaxMarginClassifier(multi_class="pairs").fit(points, labels)
