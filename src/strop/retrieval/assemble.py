"""From settings and data to a model and its training pairs."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from strop.data import ImageCaptions, ImageFiles, Images, TensorImages, Vocabulary
from strop.retrieval.encoders import (
    BagOfWords,
    CaptionEncoder,
    GRUEncoder,
    ImageEncoder,
    PrecomputedFeatures,
    PretrainedImages,
    SentenceEncoder,
    SmallConvNet,
    dual_encoder,
    load_glove,
    pretrained_images,
)
from strop.retrieval.features import cached_features
from strop.retrieval.model import JointEmbedding
from strop.retrieval.pairs import Pairs, View
from strop.retrieval.settings import TrainSettings
from strop.retrieval.views import View as FeatureView
from strop.retrieval.views import augment, random_crop
from strop.support import InputError

LARGEST_SMALL = 96  # pixels: up to here a small network trained from scratch is the better start
RESIDENT_BYTES = 4 * 2**30  # images up to this size are kept on the device of the model
DECODED_BYTES = 2 * 2**30  # picture files up to this size are decoded once, and then such images


@dataclass(frozen=True)
class Assembly:
    """A model, and the pairs to train it on."""

    model: JointEmbedding
    pairs: Pairs


def assemble(
    data: ImageCaptions,
    settings: TrainSettings,
    *,
    device: torch.device,
    start_from: JointEmbedding | None = None,
) -> Assembly:
    """Build what the settings ask for, with a vocabulary of the training captions alone."""
    if not len(data.captions):
        raise InputError(f"there is nothing to train on: {data.describe()}")
    if start_from is not None:
        model = _tuned(start_from, settings)
    elif settings.dual_encoder is not None:
        model = _dual(settings)
    else:
        model = JointEmbedding(
            _image_encoder(data.images, settings),
            _caption_encoder(data.captions, settings),
            settings.embedding_dim,
            project_captions=settings.project_captions or settings.caption_encoder != "gru",
            similarity=settings.similarity,
        )
    model.to(device)
    return Assembly(model, _pairs(data, model, settings, device))


def frozen_images(settings: TrainSettings) -> PretrainedImages | None:
    """The image network of a training that leaves it as it is: its features are made once."""
    live = settings.finetune_images or settings.crop == "RC" or settings.dual_encoder is not None
    if settings.image_encoder == "auto" or live:
        return None
    return pretrained_images(settings.image_encoder, dropout=settings.image_dropout)


def as_features(
    data: ImageCaptions, encoder: PretrainedImages, settings: TrainSettings, *, folder: Path
) -> ImageCaptions:
    """The same data with the features of a frozen network in place of the pictures.

    The network is told of the crop, to see pictures as these were seen.
    """
    if settings.crop not in ("auto", "none", "1C", "10C"):
        raise InputError(
            f"the crop {settings.crop!r} needs pictures in every epoch, but a frozen network's "
            "features are made once: choose 1C or 10C, or add --finetune-images"
        )
    view: FeatureView = "1C" if settings.crop == "1C" else "whole"
    view = "10C" if settings.crop == "10C" else view
    features = cached_features(encoder, data.images, folder=folder, view=view)
    if view != "whole":
        encoder.look(view, read_at=min(data.images[0].shape[-2:]))
    return replace(data, images=TensorImages(features))


def see_as_trained(model: JointEmbedding, images: Images, settings: TrainSettings) -> None:
    """A network trained on random crops is shown the centre of a picture from then on."""
    encoder = model.image_encoder
    if isinstance(encoder, PretrainedImages) and _crop(images, model, settings) == "RC":
        encoder.look("1C", read_at=min(images[0].shape[-2:]))


def _image_encoder(images: Images, settings: TrainSettings) -> ImageEncoder:
    sample = images[0]
    if sample.ndim == 1:
        if settings.image_encoder != "auto":
            raise InputError(
                f"the data hold {images.describe()}, which no {settings.image_encoder!r} can read: "
                "leave image_encoder at 'auto', or give pictures"
            )
        return PrecomputedFeatures(widths=(len(sample),), dropout=settings.image_dropout)
    if settings.image_encoder != "auto":
        return pretrained_images(
            settings.image_encoder,
            frozen=not settings.finetune_images,
            dropout=settings.image_dropout,
        )
    side = sample.shape[-1]
    if sample.shape[-2] != side or side > LARGEST_SMALL:
        raise InputError(
            f"{images.describe()} are too large for the small network that 'auto' trains from "
            f"scratch (up to {LARGEST_SMALL} pixels): choose a pretrained one, such as "
            "--image-encoder timm:resnet50, or read the pictures at a smaller size"
        )
    return SmallConvNet(image_size=side, dropout=settings.image_dropout)


def _caption_encoder(captions: tuple[str, ...], settings: TrainSettings) -> CaptionEncoder:
    name = settings.caption_encoder
    if name not in ("gru", "bag-of-words"):
        if not name.startswith("transformers:"):
            raise InputError(
                f"expected caption_encoder to be gru, bag-of-words or transformers:NAME, "
                f"but it is {name!r}"
            )
        return SentenceEncoder.from_pretrained(
            name.removeprefix("transformers:"), frozen=not settings.finetune_captions
        )
    vocabulary = Vocabulary.build(captions, min_count=settings.min_count)
    vectors = None
    if settings.glove is not None:
        vectors, _ = load_glove(settings.glove, vocabulary)
    if name == "bag-of-words":
        return BagOfWords(
            vocabulary,
            word_dim=settings.word_dim,
            dropout=settings.word_dropout,
            word_vectors=vectors,
        )
    return GRUEncoder(
        vocabulary,
        word_dim=settings.word_dim,
        hidden_dim=settings.hidden_dim,
        bidirectional=settings.bidirectional,
        pool=settings.pool,
        dropout=settings.word_dropout,
        word_vectors=vectors,
    )


def _dual(settings: TrainSettings) -> JointEmbedding:
    """A pair with a common space; what is trained starts out as what it was (zero-shot)."""
    images, captions = dual_encoder(str(settings.dual_encoder), mode=settings.tuning)
    frozen = settings.tuning == "frozen"
    model = JointEmbedding(
        images,
        captions,
        images.output_dim,
        project_images=frozen,
        project_captions=frozen,
        similarity=settings.similarity,
    )
    for projection in (model.image_projection, model.caption_projection):
        if projection is not None:
            nn.init.eye_(projection.weight)
            nn.init.zeros_(projection.bias)
    return model


def _tuned(model: JointEmbedding, settings: TrainSettings) -> JointEmbedding:
    """Let a pretrained image network learn, as the second stage of the thesis's training does."""
    if model.similarity != settings.similarity:
        raise InputError(
            f"the model to go on from was trained with the similarity {model.similarity!r}, but "
            f"the settings ask for {settings.similarity!r}: add --similarity {model.similarity}"
        )
    encoder = model.image_encoder
    if settings.finetune_images and not isinstance(encoder, PretrainedImages):
        raise InputError(
            f"only a pretrained image network can be fine-tuned, but this model has a "
            f"{type(encoder).__name__}: train one with --image-encoder timm:… first"
        )
    if isinstance(encoder, PretrainedImages) and encoder.mode != "lora":
        encoder.tune("whole" if settings.finetune_images else "frozen")
    return model


def _pairs(
    data: ImageCaptions, model: JointEmbedding, settings: TrainSettings, device: torch.device
) -> Pairs:
    images = _resident(data.images, device)
    if "concept" in data.fields:
        concepts, _ = data.labels("concept")
    else:
        concepts = torch.arange(len(data.images))
    return Pairs(
        images.batch,
        model.tokens(data.captions).to(device),
        data.image_of_caption,
        concepts,
        view=_view(data.images, model, settings),
    )


def _resident(images: Images, device: torch.device) -> Images:
    """Few images are decoded once and moved to the device once, rather than batch by batch."""
    if isinstance(images, ImageFiles) and images.size is not None:
        small = 3 * len(images) * images.size**2 <= DECODED_BYTES
        images = images.in_memory() if small else images
    if isinstance(images, TensorImages) and images.values.nbytes <= RESIDENT_BYTES:
        return TensorImages(images.values.to(device))
    return images


def _crop(images: Images, model: JointEmbedding, settings: TrainSettings) -> str:
    """What is cut out of every picture of a batch."""
    if images[0].ndim == 1:
        return "none"
    if settings.crop == "auto":
        return "augment" if isinstance(model.image_encoder, SmallConvNet) else "RC"
    return settings.crop


def _view(images: Images, model: JointEmbedding, settings: TrainSettings) -> View | None:
    crop = _crop(images, model, settings)
    if crop == "none":
        return None
    if crop == "augment":
        return lambda pictures, generator: augment(pictures, generator=generator)
    if crop == "RC":
        size = model.image_size
        if size is None:
            raise InputError("random crops need an image encoder that says how large it sees")
        return partial(_random_crop, size=size)
    raise InputError(
        f"the crop {crop!r} is for the features of a frozen network, but this image network "
        "learns: choose RC, augment or none"
    )


def _random_crop(pictures: Tensor, generator: torch.Generator, *, size: int) -> Tensor:
    return random_crop(pictures, size=size, generator=generator)
