"""What turns pictures and captions into vectors, before the joint space.

An encoder is a module with an ``output_dim`` and a ``config()`` of plain JSON values from which
``build_encoder`` makes it again, without its weights.
"""

from strop.retrieval.encoders.captions import BagOfWords, CaptionEncoder, GRUEncoder, Tokens
from strop.retrieval.encoders.images import ImageEncoder, PrecomputedFeatures, SmallConvNet

__all__ = [
    "BagOfWords",
    "CaptionEncoder",
    "GRUEncoder",
    "ImageEncoder",
    "PrecomputedFeatures",
    "SmallConvNet",
    "Tokens",
]
