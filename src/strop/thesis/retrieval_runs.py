"""The trainings of chapter 3, which its tables and figures share: each is one kept call.

A run is one of the thesis's presets with changes; a scale says on which data, with which encoder
and for how long. At ``small`` the captions are read as bags of words and the image features are
frozen, so that a training takes seconds; at ``gpu`` encoder and schedule are the thesis's.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import torch

from strop.data import ImageCaptions, TensorImages, find_data, load_emoji, wrong_captions
from strop.retrieval import PRESETS, HardestPairs, RandomPairs, evaluate, train_embedding
from strop.retrieval.metrics import RetrievalScores
from strop.retrieval.sets import DataSettings, load_part
from strop.retrieval.settings import TrainSettings
from strop.retrieval.train import TrainedEmbedding
from strop.support import InputError
from strop.thesis.calls import Each, Record

PARTS = ("train", "validation", "test")
FOLDS = 5
"""Of the test images, for the thesis's "1K" figures."""


@dataclass(frozen=True)
class Data:
    """Which images: a name of the data folders, or ``emoji``, whose pixels are the features."""

    name: str = "flickr8k"
    features: tuple[str, ...] = ("resnet50",)
    """Of frozen networks, files ``features_NAME.npz`` beside the captions; none for pictures."""
    images: int | None = None
    """How many to train on; without it all."""
    validation: int | None = None
    test: int | None = None
    components: int | None = None
    """Of the features, so many principal components of the training images; without it all."""
    train_part: str = "train"
    pixels: int = 16
    """Side of the emoji."""


@dataclass(frozen=True)
class Scale:
    """Data, encoder and length of the trainings of an experiment."""

    data: Data = field(default_factory=Data)
    fallback: Data | None = None
    """Taken where the data are absent."""
    seeds: int = 5
    first_seed: int = 0
    """Where earlier seeds left a claim open, it is decided by others, fixed before they are run."""
    caption_encoder: str = "gru"
    image_encoder: str = "auto"
    embedding_dim: int = 1024
    word_dim: int = 300
    min_count: int = 4
    epochs: int = 30
    faster: float = 1.0
    """Times the thesis's learning rate."""
    finetune_epochs: int = 15
    """Of the second stage, where the image network is trained too."""


@dataclass(frozen=True)
class Run:
    """One of the thesis's presets with changes, of the training or of the data."""

    name: str
    preset: str = "vse++"
    changes: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    wrong: float = 0.0
    """Share of the training captions that belong to another image."""
    further: str | int | None = None
    """Negatives beyond the batch: so many random pairs, or ``"hardest"`` of the training set."""
    finetune: bool = False
    """Go on with the image network trained too (thesis section 3.3.2)."""


_SMOKE = Data("emoji", images=60, validation=20, test=40, pixels=6)
SCALES: dict[str, Scale] = {
    "smoke": Scale(
        data=_SMOKE,
        seeds=2,
        caption_encoder="bag-of-words",
        embedding_dim=12,
        word_dim=12,
        min_count=1,
        epochs=2,
        faster=20.0,
    ),
    "small": Scale(
        data=Data(images=1200, validation=200, components=256),
        fallback=Data("emoji", images=1200, validation=200, components=256),
        caption_encoder="bag-of-words",
        embedding_dim=128,
        word_dim=128,
        min_count=2,
        epochs=12,
        faster=5.0,
    ),
    "gpu": Scale(finetune_epochs=8),
    "flickr30k": Scale(data=Data("flickr30k", ()), image_encoder="torchvision:vgg19", seeds=1),
    "coco": Scale(data=Data("coco", ()), image_encoder="torchvision:vgg19", seeds=1),
}
"""The thesis took one seed, Flickr30K and COCO."""


def trainings(
    scale: Scale, runs: Iterable[Run], each: Each, *, folds: bool = False
) -> list[Record]:
    """Every run over the seeds of the scale: recalls on the test images, by epoch on validation.

    With ``folds``, the means over five slices of the test images too.
    """
    data = available(scale)
    seeds = range(scale.first_seed, scale.first_seed + scale.seeds)
    chosen = [(run, seed) for run in runs for seed in seeds]
    calls = [call_of(scale, data, run, seed) for run, seed in chosen]
    return [
        {"run": run.name}
        | {name: value for name, value in record.items() if folds or name != "by_folds"}
        for (run, _), record in zip(chosen, each(train_and_test, calls), strict=True)
    ]


def available(scale: Scale) -> Data:
    """The data of the scale, or what it falls back to where they are absent."""
    if scale.data.name == "emoji" or scale.fallback is None:
        return scale.data
    try:
        find_data(scale.data.name)
    except InputError:
        return scale.fallback
    return scale.data


def call_of(scale: Scale, data: Data, run: Run, seed: int) -> dict[str, Any]:
    """The arguments of ``train_and_test``, plain values alone; what is usual is left out."""
    preset = PRESETS[run.preset]
    settings = {
        "caption_encoder": scale.caption_encoder,
        "image_encoder": scale.image_encoder,
        "embedding_dim": scale.embedding_dim,
        "hidden_dim": scale.embedding_dim,
        "word_dim": scale.word_dim,
        "min_count": scale.min_count,
        "epochs": scale.epochs,
        "learning_rate": preset.learning_rate * scale.faster,
        **run.changes,
    }
    second = scale.finetune_epochs if run.finetune else 0
    more = {"wrong": run.wrong, "further": run.further, "finetune": second}
    return {
        "data": asdict(data) | {"features": list(data.features)} | _fitting(run.data, data),
        "preset": run.preset,
        "settings": settings,
        "seed": seed,
        **{name: value for name, value in more.items() if value},
    }


def _fitting(changes: Mapping[str, Any], data: Data) -> dict[str, Any]:
    """Emoji have no features of networks: such a change is one of pixels there."""
    if data.name == "emoji" and "features" in changes:
        return dict(changes) | {"features": [], "pixels": 2 * data.pixels}
    return dict(changes)


def train_and_test(
    *,
    data: dict[str, Any],
    preset: str,
    settings: dict[str, Any],
    seed: int,
    wrong: float = 0.0,
    further: str | int | None = None,
    finetune: int = 0,
) -> Record:
    """One training, its recalls on the test images and, by epoch, on the validation images.

    ``finetune``: epochs of a second stage that trains the image network too.
    """
    train, validation, test = load(**data)
    if wrong:
        train = wrong_captions(train, share=wrong, generator=torch.Generator().manual_seed(seed))
    chosen = replace(PRESETS[preset], **settings, seed=seed)
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    began = clock()
    trained = train_embedding(
        train, validation, settings=chosen, further=_further(further, chosen), progress="quiet"
    )
    if finetune:
        trained = _finetuned(trained, train, validation, chosen, epochs=finetune)
    seconds = clock() - began
    return {
        "data": describe(data),
        "seed": seed,
        "collapsed": trained.collapse is not None,
        "seconds": round(seconds, 2),
        "best_epoch": None if trained.history.best is None else trained.history.best.epoch,
        "epochs": [
            [round(one[name], 3) for name in ("i2t_r1", "t2i_r1", "rsum")]
            for one in trained.history.records
            if one["event"] == "validation"
        ],
        **scores_of(evaluate(trained.model, test)),
        "by_folds": scores_of(evaluate(trained.model, test, folds=FOLDS)),
    }


def scores_of(scores: RetrievalScores) -> Record:
    """Recalls and ranks of both ways, in percent, to a thousandth."""
    return {
        way: {
            "recall": {str(k): round(value, 3) for k, value in ranked.recall.items()},
            "median_rank": ranked.median_rank,
        }
        for way, ranked in (
            ("image_to_text", scores.image_to_text),
            ("text_to_image", scores.text_to_image),
        )
    }


def describe(data: Mapping[str, Any]) -> str:
    """The data in words.

    >>> describe({"name": "flickr8k", "images": 1500, "features": ["resnet50"], "components": 9})
    'Flickr8k, 1,500 training images, frozen resnet50 (9 components)'
    """
    names = {"flickr8k": "Flickr8k", "flickr30k": "Flickr30K", "coco": "COCO", "emoji": "emoji"}
    images = "all" if data["images"] is None else f"{data['images']:,}"
    words = f"{names.get(data['name'], data['name'])}, {images} training images"
    if data["name"] == "emoji":
        words += f", {data['pixels']} x {data['pixels']} pixels as features"
    elif data["features"]:
        words += f", frozen {' + '.join(data['features'])}"
    components = data.get("components")
    return words if components is None else f"{words} ({components} components)"


def load(**data: Any) -> tuple[ImageCaptions, ImageCaptions, ImageCaptions]:
    """The training, validation and test images of a :class:`Data` as plain values."""
    return _load(Data(**data | {"features": tuple(data["features"])}))


@lru_cache(maxsize=4)
def _load(data: Data) -> tuple[ImageCaptions, ImageCaptions, ImageCaptions]:
    if data.name == "emoji":
        found = [_flat(load_emoji(part=part, size=data.pixels)) for part in PARTS]  # type: ignore[arg-type]
    else:
        place = find_data(data.name)
        table = place / "captions.txt"
        reading = DataSettings(
            features=tuple(place / f"features_{name}.npz" for name in data.features)
        )
        found = [
            load_part(
                str(table if table.exists() else place),
                part,
                reading,
                pretrained=not data.features,
            )
            for part in (data.train_part, *PARTS[1:])
        ]
    if data.components is not None:
        found = _principal(found, data.components)
    counts = (data.images, data.validation, data.test)
    train, validation, test = (
        part if count is None else part.subset(_some(len(part.images), count))
        for part, count in zip(found, counts, strict=True)
    )
    return train, validation, test


def _flat(data: ImageCaptions) -> ImageCaptions:
    """Pixels in a row, about zero, as if they were the features of a network."""
    pixels = data.images.batch(range(len(data.images))).flatten(1).float() / 127.5 - 1
    return replace(data, images=TensorImages(pixels))


def _principal(parts: list[ImageCaptions], count: int) -> list[ImageCaptions]:
    """The features in the first principal axes of the training images."""
    features = [part.images.batch(range(len(part.images))).float() for part in parts]
    mean = features[0].mean(dim=0)
    centred = features[0] - mean
    axes = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -count:]
    return [
        replace(part, images=TensorImages((rows - mean) @ axes))
        for part, rows in zip(parts, features, strict=True)
    ]


def _some(total: int, count: int) -> torch.Tensor:
    """The same images for every seed, so that seeds differ by the training alone."""
    return torch.randperm(total, generator=torch.Generator().manual_seed(0))[:count]


def _further(further: str | int | None, settings: TrainSettings) -> Any:
    if further is None:
        return None
    if further == "hardest":
        return partial(HardestPairs, refresh=50)
    if isinstance(further, int):
        return partial(RandomPairs, count=further)
    raise InputError(f"expected a number of further pairs or 'hardest', came {further!r}")


def _finetuned(
    trained: TrainedEmbedding,
    train: ImageCaptions,
    validation: ImageCaptions,
    settings: TrainSettings,
    *,
    epochs: int,
) -> TrainedEmbedding:
    """The second stage: at a tenth of the rate, the image network trained too."""
    second = PRESETS["finetune"]
    return train_embedding(
        train,
        validation,
        settings=replace(
            settings,
            finetune_images=True,
            finetune_rate=second.finetune_rate,
            learning_rate=settings.learning_rate / 10,
            epochs=epochs,
            crop=second.crop,
        ),
        start_from=trained.model,
        progress="quiet",
    )
