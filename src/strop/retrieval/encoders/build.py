"""The door between names in a configuration file and encoder classes."""

from typing import Any

from strop.data import Vocabulary
from strop.retrieval.encoders.captions import BagOfWords, CaptionEncoder, GRUEncoder
from strop.retrieval.encoders.images import ImageEncoder, PrecomputedFeatures, SmallConvNet
from strop.support import InputError


def describe(encoder: Any) -> dict[str, Any]:
    """An encoder as plain JSON values: its class, its arguments, its vocabulary if it has one."""
    described = {"type": type(encoder).__name__, **encoder.config()}
    vocabulary = getattr(encoder, "vocabulary", None)
    return described | ({} if vocabulary is None else {"vocabulary": vocabulary.to_dict()})


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
        case other:
            raise InputError(f"this version of strop has no caption encoder {other!r}")
