"""What turns pictures and captions into vectors, before the joint space.

An encoder is a module with an ``output_dim`` and a ``config()`` of plain JSON values from which
``build_encoder`` makes it again, without its weights.
"""

from strop.retrieval.encoders.captions import BagOfWords, CaptionEncoder, GRUEncoder, Tokens
from strop.retrieval.encoders.images import ImageEncoder, PrecomputedFeatures, SmallConvNet
from strop.retrieval.encoders.precomputed import PrecomputedCaptions
from strop.retrieval.encoders.pretrained import PretrainedImages
from strop.retrieval.encoders.sentences import SentenceEncoder
from strop.retrieval.encoders.sources import dual_encoder, pretrained_images
from strop.retrieval.encoders.words import load_glove

__all__ = [
    "BagOfWords",
    "CaptionEncoder",
    "GRUEncoder",
    "ImageEncoder",
    "PrecomputedCaptions",
    "PrecomputedFeatures",
    "PretrainedImages",
    "SentenceEncoder",
    "SmallConvNet",
    "Tokens",
    "dual_encoder",
    "load_glove",
    "pretrained_images",
]
