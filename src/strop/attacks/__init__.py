"""Attacks on classifiers: the worst perturbation of each example, in any norm of the geometry.

An attack is a function over a norm, and what it returns keeps to the budget and to the box.

>>> import torch
>>> from strop.attacks import apgd
>>> from strop.geometry import Linf
>>> model = torch.nn.Linear(2, 2, bias=False)
>>> _ = model.weight.data.copy_(torch.tensor([[1.0, 1.0], [-1.0, 0.0]]))
>>> result = apgd(model, torch.tensor([[0.5, 0.2]]), torch.tensor([0]), norm=Linf, eps=0.125)
>>> result.adversarial, result.success, result.norm
(tensor([[0.3750, 0.0750]]), tensor([False]), tensor([0.1250]))
"""

from strop.attacks.apgd import apgd
from strop.attacks.campaign import AttackReport
from strop.attacks.evaluate import accuracy_curve, max_epsilon, robust_accuracy
from strop.attacks.intervals import Accuracy
from strop.attacks.losses import cross_entropy, dlr, margin, targeted_dlr, targeted_margin
from strop.attacks.minimum_norm import minimum_norm
from strop.attacks.names import norm_from_name
from strop.attacks.pgd import pgd
from strop.attacks.preflight import Finding, PreflightError, preflight
from strop.attacks.results import AccuracyCurve, Evaluation, MaxEpsilon, RobustAccuracy
from strop.attacks.robust_losses import InnerSearch, adversarial_loss, trades_loss
from strop.attacks.search import AttackResult
from strop.attacks.square import square
from strop.attacks.suite import Attack, quick_suite, standard_suite
from strop.attacks.training import RobustTraining, train_robust
from strop.attacks.training_settings import RobustSettings

__all__ = [
    "Accuracy",
    "AccuracyCurve",
    "Attack",
    "AttackReport",
    "AttackResult",
    "Evaluation",
    "Finding",
    "InnerSearch",
    "MaxEpsilon",
    "PreflightError",
    "RobustAccuracy",
    "RobustSettings",
    "RobustTraining",
    "accuracy_curve",
    "adversarial_loss",
    "apgd",
    "cross_entropy",
    "dlr",
    "margin",
    "max_epsilon",
    "minimum_norm",
    "norm_from_name",
    "pgd",
    "preflight",
    "quick_suite",
    "robust_accuracy",
    "square",
    "standard_suite",
    "targeted_dlr",
    "targeted_margin",
    "trades_loss",
    "train_robust",
]
