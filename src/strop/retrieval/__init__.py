"""Images and captions in one space: losses with hard negatives, and how well it finds."""

from strop.retrieval.baselines import CanonicalCorrelation, cca, pairwise_hinge_loss
from strop.retrieval.collapse import Collapse, CollapseDetector, CollapseError, collapsed_loss
from strop.retrieval.evaluate import evaluate
from strop.retrieval.further import FurtherNegatives, HardestPairs, RandomPairs
from strop.retrieval.losses import (
    ContrastiveHingeLoss,
    InfoNCELoss,
    contrastive_hinge_loss,
    info_nce_loss,
)
from strop.retrieval.metrics import RankedQueries, RetrievalScores, retrieval_metrics
from strop.retrieval.metrics_stream import RecallDifference, RetrievalMetrics, compare_recall
from strop.retrieval.mining import (
    MaxOfHinges,
    Mining,
    SemiHardHinges,
    SoftmaxHinges,
    SumOfHinges,
    TopKHinges,
)
from strop.retrieval.mining_schedules import (
    AnnealedTemperature,
    AnnealedTopK,
    HardnessSchedule,
    WarmStart,
)
from strop.retrieval.model import JointEmbedding
from strop.retrieval.queue import NegativeQueue, Negatives
from strop.retrieval.settings import PRESETS, TrainSettings
from strop.retrieval.similarity import InnerProduct, OrderViolation, Similarity
from strop.retrieval.train import TrainedEmbedding, train_embedding

__all__ = [
    "PRESETS",
    "AnnealedTemperature",
    "AnnealedTopK",
    "CanonicalCorrelation",
    "Collapse",
    "CollapseDetector",
    "CollapseError",
    "ContrastiveHingeLoss",
    "FurtherNegatives",
    "HardestPairs",
    "HardnessSchedule",
    "InfoNCELoss",
    "InnerProduct",
    "JointEmbedding",
    "MaxOfHinges",
    "Mining",
    "NegativeQueue",
    "Negatives",
    "OrderViolation",
    "RandomPairs",
    "RankedQueries",
    "RecallDifference",
    "RetrievalMetrics",
    "RetrievalScores",
    "SemiHardHinges",
    "Similarity",
    "SoftmaxHinges",
    "SumOfHinges",
    "TopKHinges",
    "TrainSettings",
    "TrainedEmbedding",
    "WarmStart",
    "cca",
    "collapsed_loss",
    "compare_recall",
    "contrastive_hinge_loss",
    "evaluate",
    "info_nce_loss",
    "pairwise_hinge_loss",
    "retrieval_metrics",
    "train_embedding",
]
