"""Sharper training for PyTorch: harder negatives, quieter gradients, wider margins.

The names below are loaded when they are first used, so that ``import strop`` (and ``strop --help``)
does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from strop.version import __version__

if TYPE_CHECKING:
    from strop.data import (
        ImageCaptions,
        LabelledImages,
        Vocabulary,
        load_emoji,
        read_captions,
        read_images,
    )
    from strop.geometry import L1, L2, Fourier, Linf, Lp, high_band, low_band
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
    "strop.data": (
        *("ImageCaptions", "LabelledImages", "Vocabulary"),
        *("load_emoji", "read_captions", "read_images"),
    ),
    "strop.geometry": ("L1", "L2", "Fourier", "Linf", "Lp", "high_band", "low_band"),
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
    "ImageCaptions",
    "InfoNCELoss",
    "JointEmbedding",
    "LabelledImages",
    "Linf",
    "LoopSettings",
    "Lp",
    "TrainSettings",
    "Vocabulary",
    "__version__",
    "contrastive_hinge_loss",
    "evaluate",
    "fit",
    "high_band",
    "info_nce_loss",
    "load_classifier",
    "load_emoji",
    "load_settings",
    "low_band",
    "open_run",
    "read_captions",
    "read_images",
    "read_records",
    "retrieval_metrics",
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
