"""``MaxMarginClassifier``: the maximally robust linear classifier as a scikit-learn estimator."""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from strop.geometry import L1, L2, Fourier, Linf, Norm
from strop.margins.certificate import NotSeparableError
from strop.margins.data import SignedData, signed_data
from strop.margins.joint import joint_margin, largest_joint_slack, least_joint_slack
from strop.margins.result import MarginResult, Status
from strop.margins.slack import AUTO_MULTIPLE, automatic_slack
from strop.margins.solve import Solver, solve
from strop.support import InputError

__all__ = ["MaxMarginClassifier", "SlackWarning"]

_ATTACKS = {"l1": L1, "l2": L2, "linf": Linf, "fourier-linf": Fourier(Linf, dims=1)}


class SlackWarning(UserWarning):
    """The data are not separable; slack was used."""


class MaxMarginClassifier(ClassifierMixin, BaseEstimator):
    """The linear classifier that withstands the largest attack on its training points.

    argmax_{w,b} { eps : y_i (w.(x_i + delta) + b) > 0 for all i and ||delta|| <= eps }

    Thesis definition 1 and lemma 1; with slack appendix B.1 (see :mod:`strop.margins.slack`).

    Args:
        attack_norm: "l1", "l2", "linf", "fourier-linf" (1-D spectrum), or a norm of
            :mod:`strop.geometry` over vectors.
        fit_intercept: whether b is free.
        solver: see :func:`strop.margins.max_margin`.
        tol: the certified relative gap to reach.
        slack: None raises :class:`NotSeparableError` on data that are not separable; "auto" warns
            and takes 1.5 times the least feasible slack; a number 0 <= xi < 1 is that slack.
        multi_class: "ovr", each class against the others; or "joint", the joint margin.

    Attributes:
        coef_, intercept_: (1, d) and (1,) for two classes, (c, d) and (c,) for more; for two
            classes of dual attack norm 1.
        classes_, n_features_in_, n_iter_ (the most iterations of a solve).
        margin_: the maximal eps: for two classes (or "joint") that of the solver; for "ovr" the
            least radius over the training points, zero if one is wrong.
        gap_: the largest certified relative gap to the best margin.
        support_: the indices of the points whose mixture proves the bound.
        status_: how it ended; where something is to be done about it, what.
        slack_: the slack used, 0 for none.

    >>> model = MaxMarginClassifier("l2").fit([[0.0], [1.0], [3.0]], ["a", "a", "b"])
    >>> round(model.margin_, 4), model.predict([[1.9], [2.1]]).tolist()
    (1.0, ['a', 'b'])
    """

    def __init__(
        self,
        attack_norm: str | Norm = "linf",
        fit_intercept: bool = True,
        solver: Solver = "auto",
        tol: float = 1e-6,
        slack: Literal["auto"] | float | None = "auto",
        multi_class: Literal["ovr", "joint"] = "ovr",
    ) -> None:
        self.attack_norm = attack_norm
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.slack = slack
        self.multi_class = multi_class

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> MaxMarginClassifier:
        """Find the classifier; ``X`` (n, d) dense or sparse, ``y`` (n,) any labels."""
        points, labels = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(
                f"expected two classes or more, came 1 class, {self.classes_[0]!r}: with one "
                "class no margin is the largest"
            )
        if self.multi_class not in ("ovr", "joint"):
            raise InputError(f"expected multi_class 'ovr' or 'joint', came {self.multi_class!r}")
        if self.multi_class == "joint" and len(self.classes_) > 2:
            self._fit_joint(points, numbers)
        else:
            self._fit_binary(points, numbers)
        return self

    def _fit_binary(self, points: Any, numbers: NDArray[Any]) -> None:
        targets = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        results = [self._solve(points, np.where(numbers == t, 1, -1)) for t in targets]
        self.coef_ = np.stack([r.weights.double().cpu().numpy().reshape(-1) for r in results])
        self.intercept_ = np.array([r.intercept for r in results])
        self.n_iter_ = max(1, *(r.iterations for r in results), 1)
        self.gap_ = max(r.gap for r in results)
        self.slack_ = max(r.slack for r in results)
        mixtures = torch.stack([r.certificate.mixture.cpu() for r in results])
        self.support_ = (mixtures > 1e-8 * mixtures.max()).any(0).nonzero().flatten().numpy()
        self.status_ = str(max((r.status for r in results), key=_gravity))
        if len(self.classes_) == 2:
            self.margin_ = results[0].margin
        else:
            self.margin_ = self._training_margin(points, numbers)

    def _solve(self, points: Any, signs: NDArray[Any]) -> MarginResult:
        data = signed_data(points, signs, intercept=self.fit_intercept)
        attack = self._attack()
        fixed = self.slack if isinstance(self.slack, (int, float)) else 0.0
        result = solve(data, attack=attack, solver=self.solver, tol=self.tol, slack=fixed)
        if result.status is not Status.NOT_SEPARABLE or fixed > 0:
            return result
        if self.slack is None:
            raise NotSeparableError(result.certificate, scale=data.scale(attack))
        if self.slack != "auto":
            return result
        return self._with_slack(data, attack)

    def _with_slack(self, data: SignedData, attack: Norm) -> MarginResult:
        slack = automatic_slack(data, attack=attack)
        _warn_of_slack(slack)
        solver = "auto" if self.solver == "gram" else self.solver
        return solve(data, attack=attack, solver=solver, tol=self.tol, slack=slack)

    def _fit_joint(self, points: Any, numbers: NDArray[Any]) -> None:
        dense = points.toarray() if hasattr(points, "toarray") else points
        rows, classes = torch.as_tensor(dense), torch.as_tensor(numbers)
        attack = self._attack()
        fixed = self.slack if isinstance(self.slack, (int, float)) else 0.0
        shared: dict[str, Any] = {"attack": attack, "intercept": self.fit_intercept}
        result = joint_margin(rows, classes, slack=fixed, **shared)
        scale = float(attack(rows.double()).max())
        if fixed == 0 and (result.upper <= 1e-7 * scale or result.margin <= 0):
            if self.slack is None:
                raise NotSeparableError(result.certificate, scale=scale)
            if self.slack == "auto":
                least = least_joint_slack(rows, classes, intercept=self.fit_intercept)
                slack = min(AUTO_MULTIPLE * least, (least + largest_joint_slack(classes)) / 2)
                _warn_of_slack(slack)
                result = joint_margin(rows, classes, slack=slack, **shared)
        self.coef_, self.intercept_ = result.weights.numpy(), result.intercepts.numpy()
        self.margin_, self.gap_ = result.margin, result.gap
        self.n_iter_, self.slack_ = max(1, result.iterations), result.slack
        solved = Status.SOLVED_WITH_SLACK if result.slack > 0 else Status.SOLVED
        self.status_ = str(solved if result.gap <= self.tol else Status.STOPPED)
        carried = result.mixture.sum(1)
        self.support_ = (carried > 1e-6 * carried.max()).nonzero().flatten().numpy()

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """(n,) signed values for two classes, (n, c) scores for more."""
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each row."""
        scores = self._scores(X)
        best = (scores[:, 0] > 0).astype(int) if len(self.classes_) == 2 else scores.argmax(1)
        return np.asarray(self.classes_[best])

    def certified_radius(self, X: ArrayLike) -> NDArray[Any]:
        """How long a perturbation must be, in the attack norm, to change each prediction. Exact."""
        scores = self._scores(X)
        best = (scores[:, 0] > 0).astype(int) if len(self.classes_) == 2 else scores.argmax(1)
        return self._radii_of(scores, best)

    def robust_score(self, X: ArrayLike, y: ArrayLike, eps: float) -> float:
        """The share of rows predicted rightly whatever the perturbation of norm <= eps. Exact."""
        right = self.predict(X) == np.asarray(y)
        return float((right & (self.certified_radius(X) > eps)).mean())

    def _scores(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        points = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
        )
        return np.asarray(points @ self.coef_.T + self.intercept_)

    def _signed_radii(self, points: Any, numbers: NDArray[Any]) -> NDArray[Any]:
        return self._radii_of(np.asarray(points @ self.coef_.T + self.intercept_), numbers)

    def _training_margin(self, points: Any, numbers: NDArray[Any]) -> float:
        return max(0.0, float(self._signed_radii(points, numbers).min()))

    def _radii_of(self, scores: NDArray[Any], best: NDArray[Any]) -> NDArray[Any]:
        """min_k (f_best - f_k) / ||w_best - w_k||_*."""
        dual = self._attack().dual
        if len(self.classes_) == 2:
            size = float(dual(torch.as_tensor(self.coef_))[0])
            signed = np.where(best == 1, scores[:, 0], -scores[:, 0])
            return signed / size if size > 0 else np.where(signed > 0, math.inf, 0.0)
        radii = np.full(len(scores), math.inf)
        for own in range(len(self.classes_)):
            rows = best == own
            sizes = dual(torch.as_tensor(self.coef_[own] - self.coef_)).numpy()
            for rival in range(len(self.classes_)):
                if rival != own and rows.any():
                    lead = scores[rows, own] - scores[rows, rival]
                    size = max(sizes[rival], np.finfo(float).tiny)
                    radii[rows] = np.minimum(radii[rows], lead / size)
        return radii

    def _attack(self) -> Norm:
        if isinstance(self.attack_norm, Norm):
            return self.attack_norm
        if self.attack_norm not in _ATTACKS:
            raise InputError(
                f"expected attack_norm to be one of {', '.join(_ATTACKS)} or a norm of "
                f"strop.geometry, came {self.attack_norm!r}"
            )
        return _ATTACKS[self.attack_norm]


def _warn_of_slack(slack: float) -> None:
    warnings.warn(
        f"no hyperplane separates the classes: a mean hinge loss of {slack:.3g} is allowed "
        f"({AUTO_MULTIPLE} times the least); pass slack=None to have an error instead",
        SlackWarning,
        stacklevel=5,
    )


def _gravity(status: Status) -> int:
    return list(Status).index(status)
