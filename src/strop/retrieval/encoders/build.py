"""The door between names in a configuration file and encoder classes."""

from collections.abc import Sequence
from typing import Any

from strop.data import Vocabulary
from strop.retrieval.encoders.captions import BagOfWords, CaptionEncoder, GRUEncoder
from strop.retrieval.encoders.huggingface import rebuild_tower
from strop.retrieval.encoders.images import ImageEncoder, PrecomputedFeatures, SmallConvNet
from strop.retrieval.encoders.precomputed import PrecomputedCaptions
from strop.retrieval.encoders.pretrained import Backbone, Pixels, PretrainedImages
from strop.retrieval.encoders.sentences import SentenceEncoder
from strop.retrieval.encoders.vision import rebuild_vision
from strop.support import InputError


def describe(encoder: Any) -> dict[str, Any]:
    """An encoder as plain JSON values: its class, its arguments, and the parts it may have.

    Parts are a vocabulary, and the encoder that a ``PrecomputedCaptions`` asks for new captions.
    """
    described = {"type": type(encoder).__name__, **encoder.config()}
    vocabulary = getattr(encoder, "vocabulary", None)
    if vocabulary is not None:
        described["vocabulary"] = vocabulary.to_dict()
    if isinstance(encoder, PrecomputedCaptions) and encoder.encoder is not None:
        described["encoder"] = describe(encoder.encoder)
    return described


def build_images(described: dict[str, Any]) -> ImageEncoder:
    """The image encoder that ``describe`` described, with fresh weights."""
    arguments = {key: value for key, value in described.items() if key != "type"}
    match described.get("type"):
        case "PrecomputedFeatures":
            return PrecomputedFeatures(
                widths=tuple(arguments["widths"]), dropout=arguments["dropout"]
            )
        case "SmallConvNet":
            return SmallConvNet(**arguments | {"widths": tuple(arguments["widths"])})
        case "PretrainedImages":
            return _pretrained_images(**arguments)
        case other:
            raise InputError(f"this version of strop has no image encoder {other!r}")


def build_captions(described: dict[str, Any]) -> CaptionEncoder:
    """The caption encoder that ``describe`` described, with fresh weights."""
    arguments = {
        key: value for key, value in described.items() if key not in ("type", "vocabulary")
    }
    match described.get("type"):
        case "GRUEncoder":
            return GRUEncoder(Vocabulary.from_dict(described["vocabulary"]), **arguments)
        case "BagOfWords":
            return BagOfWords(Vocabulary.from_dict(described["vocabulary"]), **arguments)
        case "SentenceEncoder":
            return SentenceEncoder.rebuild(**arguments)
        case "PrecomputedCaptions":
            inner = arguments.pop("encoder", None)
            encoder = None if inner is None else build_captions(inner)
            return PrecomputedCaptions(encoder, **arguments)
        case other:
            raise InputError(f"this version of strop has no caption encoder {other!r}")


def _pretrained_images(
    *,
    source: dict[str, Any],
    size: int,
    mean: Sequence[float],
    std: Sequence[float],
    **arguments: Any,
) -> PretrainedImages:
    of_transformers = source["library"] == "transformers"
    network = rebuild_tower(source) if of_transformers else rebuild_vision(source)
    pixels = Pixels(size, tuple(mean), tuple(std))
    return PretrainedImages(Backbone(network, source, pixels), **arguments)
