"""Trained encoders by name: ``"timm:resnet50"``, ``"transformers:openai/clip-vit-base-patch32"``.

A name is ``library:model``. With torchvision and open_clip, ``/tag`` says which of several weights;
with those two and timm, ``@file`` takes the weights of a local file instead.

======================  ==========================================================================
torchvision             ``torchvision:vgg19``, ``torchvision:resnet152/IMAGENET1K_V1``
timm                    ``timm:resnet50``, ``timm:vit_base_patch16_224@weights.safetensors``
transformers            ``transformers:google/vit-base-patch16-224``, ``transformers:folder``
open_clip               ``open_clip:ViT-B-32/laion2b_s34b_b79k``
EfficientNet-Lite0      ``efficientnet-lite0:efficientnet-lite0.pth``; needs no further library
======================  ==========================================================================
"""

from pathlib import Path
from typing import Any

from torch import nn

from strop.retrieval.encoders.huggingface import (
    PackedTokenizer,
    Tower,
    describe_tower,
    image_backbone,
    load_model,
)
from strop.retrieval.encoders.pretrained import Backbone, PretrainedImages
from strop.retrieval.encoders.sentences import SentenceEncoder
from strop.retrieval.encoders.tuning import Mode
from strop.retrieval.encoders.vision import (
    load_efficientnet,
    load_open_clip,
    load_timm,
    load_torchvision,
)
from strop.support import InputError

LIBRARIES = ("torchvision", "timm", "transformers", "open_clip", "efficientnet-lite0")


def pretrained_images(name: str, *, frozen: bool = True, dropout: float = 0.0) -> PretrainedImages:
    """The trained image encoder called ``name``, without its classifier (thesis section 3.3).

    ``frozen`` keeps weights, batch statistics and dropout as they came; otherwise all weights
    learn, and ``"image_encoder.backbone"`` is the prefix that gives them a rate of their own.

    >>> pretrained_images("somewhere:else")
    Traceback (most recent call last):
    ...
    strop.support.errors.InputError: expected a name such as torchvision:resnet152, with a library
    among torchvision, timm, transformers, open_clip, efficientnet-lite0, but got 'somewhere:else'
    """
    mode: Mode = "frozen" if frozen else "whole"
    return PretrainedImages(_image_backbone(name), mode=mode, dropout=dropout)


def dual_encoder(
    name: str, *, mode: Mode = "frozen", lora_rank: int = 8
) -> tuple[PretrainedImages, SentenceEncoder]:
    """Both sides of a trained model of pictures and captions, such as CLIP or SigLIP.

    The two share one space: without projections between, they retrieve before any training.
    ``mode`` is what may learn: nothing, corrections of rank ``lora_rank`` to the linear layers, or
    all.
    """
    library, model_name = _split(name)
    tuning: dict[str, Any] = {"mode": mode, "lora_rank": lora_rank}
    if library == "open_clip":
        if mode == "lora":
            raise InputError(
                "open_clip's attention reads its weights past its layers, where corrections are "
                "not seen: for mode 'lora' take the same model from transformers"
            )
        images, text = _open_clip(model_name)
        captions = SentenceEncoder(text, None, source=images.source, **tuning)
        return PretrainedImages(images, **tuning), captions
    if library != "transformers":
        raise InputError(
            f"a pair of encoders comes from transformers or open_clip, but {name!r} is of {library}"
        )
    model, pooler_trained = load_model(model_name)
    if not (hasattr(model, "get_image_features") and hasattr(model, "get_text_features")):
        raise InputError(
            f"{model_name!r} is a {type(model).__name__}, which brings pictures and captions into "
            "no common space: take pretrained_images or SentenceEncoder for it"
        )
    images = image_backbone(model, model_name, pooler_trained=pooler_trained)
    captions = SentenceEncoder(
        Tower(model, take="text_features"),
        PackedTokenizer.load(model_name, config=model.config),
        source=describe_tower(model, model_name, take="text_features"),
        **tuning,
    )
    return PretrainedImages(images, **tuning), captions


def _image_backbone(name: str) -> Backbone:
    library, model_name = _split(name)
    match library:
        case "torchvision":
            model_name, _, file = model_name.partition("@")
            model_name, _, tag = model_name.partition("/")
            return load_torchvision(model_name, tag=tag or "DEFAULT", file=file or None)
        case "timm":
            model_name, _, file = model_name.partition("@")
            return load_timm(model_name, file=file or None)
        case "transformers":
            model, pooler_trained = load_model(model_name)
            return image_backbone(model, model_name, pooler_trained=pooler_trained)
        case "open_clip":
            return _open_clip(model_name)[0]
        case "efficientnet-lite0":
            return load_efficientnet(model_name)
        case _:
            raise InputError(f"no image encoder of {library!r}")


def _split(name: str) -> tuple[str, str]:
    library, _, model_name = name.partition(":")
    if library in LIBRARIES and model_name:
        return library, model_name
    if (Path(name) / "config.json").is_file():
        return "transformers", name
    raise InputError(
        f"expected a name such as torchvision:resnet152, with a library among "
        f"{', '.join(LIBRARIES)}, but got {name!r}"
    )


def _open_clip(name: str) -> tuple[Backbone, nn.Module]:
    model_name, _, file = name.partition("@")
    model_name, _, tag = model_name.partition("/")
    if not (file or tag):
        raise InputError(
            f"open_clip has several weights for {name}: say which, as in "
            f"open_clip:{name}/laion2b_s34b_b79k, or name a file, as in open_clip:{name}@file"
        )
    return load_open_clip(model_name, weights=file or tag)
