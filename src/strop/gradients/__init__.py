"""Quieter gradients: per-example gradients of any model, without holding them.

>>> import torch
>>> from strop.gradients import per_example_norms
>>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
>>> def losses(model, batch):
...     return torch.nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")
>>> per_example_norms(model, losses, (torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]))).shape
torch.Size([5])
"""

from strop.gradients.callbacks import hugging_face_callback, lightning_callback
from strop.gradients.capture import Tape, Use, capture
from strop.gradients.clustering import cluster_gradients
from strop.gradients.clusters import GradientClusters
from strop.gradients.curves import VarianceCurves, sgd_trajectory, variance_curves
from strop.gradients.duplicates import Duplicates, find_duplicates
from strop.gradients.engine_exact import Exact
from strop.gradients.engine_rank1 import Rank1
from strop.gradients.engine_sketch import Sketch
from strop.gradients.estimators import SVRG, Estimator, ImportanceSampling, MiniBatch, Sample
from strop.gradients.estimators_stratified import Stratified, StratifiedControlVariates
from strop.gradients.evidence import GradientEvidence, gradient_evidence
from strop.gradients.folds import train_small, views_by_folds
from strop.gradients.inspection import inspect
from strop.gradients.mislabels import LabelScores, View, score_labels
from strop.gradients.moments import Measured
from strop.gradients.monitor import GradientMonitor
from strop.gradients.network import (
    Projection,
    gradient_gram,
    gradient_inner,
    gradient_sketch,
    per_example_gradients,
    per_example_norms,
    random_projection,
)
from strop.gradients.passes import indexed_batches
from strop.gradients.per_example import PerExample
from strop.gradients.probe import ProbeReading, RefreshProbe
from strop.gradients.report import ClusterRow, DataReport
from strop.gradients.samplers import (
    EvenBatchSampler,
    StratifiedBatchSampler,
    WeightedCollate,
    WeightedExamples,
    weighted_loss,
)
from strop.gradients.sources import GradientSource, GradientTable, ModelGradients
from strop.gradients.statistics import GradientStatistics, per_example_statistics
from strop.gradients.variance import GradientVariance, estimator_statistics, gradient_variance

__all__ = [
    "SVRG",
    "ClusterRow",
    "DataReport",
    "Duplicates",
    "Estimator",
    "EvenBatchSampler",
    "Exact",
    "GradientClusters",
    "GradientEvidence",
    "GradientMonitor",
    "GradientSource",
    "GradientStatistics",
    "GradientTable",
    "GradientVariance",
    "ImportanceSampling",
    "LabelScores",
    "Measured",
    "MiniBatch",
    "ModelGradients",
    "PerExample",
    "ProbeReading",
    "Projection",
    "Rank1",
    "RefreshProbe",
    "Sample",
    "Sketch",
    "Stratified",
    "StratifiedBatchSampler",
    "StratifiedControlVariates",
    "Tape",
    "Use",
    "VarianceCurves",
    "View",
    "WeightedCollate",
    "WeightedExamples",
    "capture",
    "cluster_gradients",
    "estimator_statistics",
    "find_duplicates",
    "gradient_evidence",
    "gradient_gram",
    "gradient_inner",
    "gradient_sketch",
    "gradient_variance",
    "hugging_face_callback",
    "indexed_batches",
    "inspect",
    "lightning_callback",
    "per_example_gradients",
    "per_example_norms",
    "per_example_statistics",
    "random_projection",
    "score_labels",
    "sgd_trajectory",
    "train_small",
    "variance_curves",
    "views_by_folds",
    "weighted_loss",
]
