"""Sharper training for PyTorch: harder negatives, quieter gradients, wider margins.

The names below are loaded when they are first used, so that ``import strop`` (and ``strop --help``)
does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from strop.version import __version__

if TYPE_CHECKING:
    from strop.attacks import apgd, minimum_norm, pgd, robust_accuracy
    from strop.data import (
        ImageCaptions,
        LabelledImages,
        Vocabulary,
        load_emoji,
        read_captions,
        read_images,
    )
    from strop.geometry import L1, L2, Fourier, Linf, Lp, high_band, low_band
    from strop.gradients import (
        GradientMonitor,
        StratifiedBatchSampler,
        cluster_gradients,
        gradient_variance,
    )
    from strop.models import load_classifier
    from strop.retrieval import (
        CollapseDetector,
        ContrastiveHingeLoss,
        InfoNCELoss,
        JointEmbedding,
        TrainSettings,
        contrastive_hinge_loss,
        evaluate,
        info_nce_loss,
        retrieval_metrics,
        train_embedding,
    )
    from strop.training import LoopSettings, fit, load_settings, open_run, read_records

_NAMES = {
    "strop.attacks": ("apgd", "minimum_norm", "pgd", "robust_accuracy"),
    "strop.data": (
        *("ImageCaptions", "LabelledImages", "Vocabulary"),
        *("load_emoji", "read_captions", "read_images"),
    ),
    "strop.geometry": ("L1", "L2", "Fourier", "Linf", "Lp", "high_band", "low_band"),
    "strop.gradients": (
        *("GradientMonitor", "StratifiedBatchSampler", "cluster_gradients", "gradient_variance"),
    ),
    "strop.models": ("load_classifier",),
    "strop.retrieval": (
        *("CollapseDetector", "ContrastiveHingeLoss", "InfoNCELoss", "JointEmbedding"),
        *("TrainSettings", "contrastive_hinge_loss", "evaluate", "info_nce_loss"),
        *("retrieval_metrics", "train_embedding"),
    ),
    "strop.training": ("LoopSettings", "fit", "load_settings", "open_run", "read_records"),
}
_HOME = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "L1",
    "L2",
    "CollapseDetector",
    "ContrastiveHingeLoss",
    "Fourier",
    "GradientMonitor",
    "ImageCaptions",
    "InfoNCELoss",
    "JointEmbedding",
    "LabelledImages",
    "Linf",
    "LoopSettings",
    "Lp",
    "StratifiedBatchSampler",
    "TrainSettings",
    "Vocabulary",
    "__version__",
    "apgd",
    "cluster_gradients",
    "contrastive_hinge_loss",
    "evaluate",
    "fit",
    "gradient_variance",
    "high_band",
    "info_nce_loss",
    "load_classifier",
    "load_emoji",
    "load_settings",
    "low_band",
    "minimum_norm",
    "open_run",
    "pgd",
    "read_captions",
    "read_images",
    "read_records",
    "retrieval_metrics",
    "robust_accuracy",
    "train_embedding",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(
        f"module 'strop' has no attribute {name!r}; it offers {', '.join(__all__)}"
    )


def __dir__() -> list[str]:
    return sorted(__all__)
