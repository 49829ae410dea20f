"""Wider margins: maximally robust linear classifiers, each with a certificate.

>>> import torch
>>> from strop.geometry import Linf
>>> from strop.margins import max_margin
>>> points = torch.tensor([[2.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
>>> result = max_margin(points, [1, 1, -1], attack=Linf)
>>> round(result.margin, 4), result.gap < 1e-6
(0.6667, True)

``MaxMarginClassifier``, the scikit-learn estimator, is in :mod:`strop.margins.classifier`.
"""

from strop.margins.certificate import Certificate, NotSeparableError, certify
from strop.margins.data import SignedData, signed_data
from strop.margins.result import MarginResult, Status
from strop.margins.slack import automatic_slack, least_slack
from strop.margins.solve import max_margin, solve

__all__ = [
    "Certificate",
    "MarginResult",
    "NotSeparableError",
    "SignedData",
    "Status",
    "automatic_slack",
    "certify",
    "least_slack",
    "max_margin",
    "signed_data",
    "solve",
]
