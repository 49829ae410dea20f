"""Emoji: a small image-caption set that travels with the package.

3,786 emoji, each drawn twice (Noto and Twemoji, 64 x 64 on white), with names and keywords of the
Unicode CLDR in sixteen languages. ``README.md`` beside this file tells the sources, the licences
and the splits; ``scripts/build_emoji.py`` in the repository builds the files.
"""

import gzip
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Literal, get_args

import torch
from PIL import Image
from torch import Tensor

from strop.data.captions import ImageCaptions
from strop.data.images import TensorImages
from strop.support import InputError

Split = Literal["compositional", "random", "unseen", "cross-drawing"]
Part = Literal["train", "validation", "test", "all"]
Drawing = Literal["noto", "twemoji"]
Captions = Literal["names", "keywords", "names+keywords"]

LANGUAGES = (
    *("ar", "de", "en", "es", "fr", "hi", "it", "ja"),
    *("ko", "pt", "ru", "sw", "th", "tr", "vi", "zh"),
)

_PIXELS = 64
_COLUMNS = 6
_PER_MOSAIC = 96


@dataclass(frozen=True)
class Emoji:
    """One emoji and its parts.

    code: its code points, ``1F469-1F3FD-200D-1F373``.
    base: the code of the same emoji without skin tones.
    tones: its skin tones, ``("medium",)``; of a couple two; empty without.
    persons: who is shown where that can vary, ``("woman",)``; of a couple two.
    activity: the code with tones and persons left out: what all variations have in common.
    group, subgroup: the headings of Unicode, ``People & Body`` and ``person-role``.
    compositional, random, unseen: the part it belongs to in each split.
    """

    code: str
    base: str
    tones: tuple[str, ...]
    persons: tuple[str, ...]
    activity: str
    group: str
    subgroup: str
    compositional: str
    random: str
    unseen: str

    @property
    def character(self) -> str:
        """The emoji itself, as text."""
        return "".join(chr(int(point, 16)) for point in self.code.split("-"))


@cache
def emoji_table() -> tuple[Emoji, ...]:
    """Every emoji in the order of Unicode, variations after their base.

    >>> len(emoji_table()), emoji_table()[0].character
    (3786, '😀')
    """
    text = files(__package__).joinpath("table.tsv").read_text(encoding="utf-8")
    _, *lines = text.splitlines()
    table = []
    for line in lines:
        code, base, tones, persons, *rest = line.split("\t")
        table.append(Emoji(code, base, _listed(tones), _listed(persons), *rest))
    return tuple(table)


def _listed(cell: str) -> tuple[str, ...]:
    return tuple(cell.split("+")) if cell else ()


def load_emoji(
    *,
    split: Split = "compositional",
    part: Part = "train",
    drawings: tuple[Drawing, ...] | None = None,
    languages: tuple[str, ...] = ("en",),
    captions: Captions = "names",
    size: int = _PIXELS,
) -> ImageCaptions:
    """A part of the emoji set, as pictures and captions.

    Every split trains on 2,786 emoji and holds out 500 for validation and 500 for test, except
    ``cross-drawing``, which trains on all of them in one drawing. All are fixed.

    split:
        ``compositional``: held out are variations (*woman cook: dark skin tone*) whose parts, the
        emoji without tone, the person and each tone, are all seen in training.
        ``random``: emoji drawn at random.
        ``unseen``: whole activities, with every person and skin tone they come in.
        ``cross-drawing``: train on Noto, test on the Twemoji pictures of the emoji that
        ``random`` holds out; the captions have been seen, the style has not.
    part: ``train``, ``validation``, ``test``, or ``all`` for every emoji, whatever the split.
    drawings: by default both for training; for validation and test one, because of a caption
        that belongs to two pictures of a gallery no single rank is right: Noto, or Twemoji in
        ``cross-drawing``.
    languages: any of :data:`LANGUAGES`.
    captions: ``names``: the short name, one caption per picture and language; ``keywords``: the
        keywords, as one caption; ``names+keywords``: both, as two captions.
    size: side of the pictures in pixels; smaller ones are averaged, 64 is as stored.

    A recall is stated on ``load_emoji(split=..., part="test")``: 500 Noto pictures and their
    500 English names, all different. An image's ``fields`` tell ``drawing``, ``concept`` (the
    code of the emoji), ``character``, ``group`` and ``subgroup``.

    >>> test = load_emoji(part="test", size=32)
    >>> print(test.describe())
    emoji, compositional split, test: 500 images (pictures of 32 x 32) and 500 captions, 1 per
    image.
    """
    _check_choice("split", split, get_args(Split))
    _check_choice("part", part, get_args(Part))
    _check_choice("captions", captions, get_args(Captions))
    for language in languages:
        _check_choice("languages", language, LANGUAGES)
    if not languages:
        raise InputError("expected at least one language, but languages is empty")
    if not 1 <= size <= _PIXELS:
        raise InputError(f"expected a size of 1 to {_PIXELS} pixels, but it is {size}")
    drawings = _drawings(split, part, drawings)
    table = emoji_table()
    column = "random" if split == "cross-drawing" else split
    chosen = [
        at
        for at, emoji in enumerate(table)
        if part == "all"
        or (split == "cross-drawing" and part == "train")
        or getattr(emoji, column) == part
    ]
    texts = _texts(languages, captions)
    rows = [(drawing, at) for drawing in drawings for at in chosen]
    lines = [text for _, at in rows for text in texts[at]]
    owners = [image for image, (_, at) in enumerate(rows) for _ in texts[at]]
    return ImageCaptions(
        images=TensorImages(torch.cat([_pictures(each, chosen, size) for each in drawings])),
        names=tuple(f"{drawing}/{table[at].code}" for drawing, at in rows),
        captions=tuple(lines),
        image_of_caption=torch.tensor(owners),
        fields={
            "drawing": tuple(drawing for drawing, _ in rows),
            "concept": tuple(table[at].code for _, at in rows),
            "character": tuple(table[at].character for _, at in rows),
            "group": tuple(table[at].group for _, at in rows),
            "subgroup": tuple(table[at].subgroup for _, at in rows),
        },
        source="emoji, all" if part == "all" else f"emoji, {split} split, {part}",
    )


def _drawings(
    split: Split, part: Part, drawings: tuple[Drawing, ...] | None
) -> tuple[Drawing, ...]:
    if split == "cross-drawing" and part != "all":
        only: tuple[Drawing, ...] = ("noto",) if part == "train" else ("twemoji",)
        if drawings not in (None, only):
            raise InputError(
                f"expected drawings={only!r} for part {part!r} of the cross-drawing split, but "
                f"they are {drawings!r}; leave drawings out, or choose another split"
            )
        return only
    if drawings is None:
        return ("noto", "twemoji") if part in ("train", "all") else ("noto",)
    for drawing in drawings:
        _check_choice("drawings", drawing, get_args(Drawing))
    if not drawings or len(set(drawings)) != len(drawings):
        raise InputError(f"expected each drawing once and at least one, but they are {drawings!r}")
    return drawings


@cache
def _annotations(language: str) -> tuple[list[str], list[list[str]]]:
    packed = files(__package__).joinpath("captions", f"{language}.json.gz").read_bytes()
    known = json.loads(gzip.decompress(packed))
    return known["names"], known["keywords"]


def _texts(languages: tuple[str, ...], captions: Captions) -> list[list[str]]:
    """The captions of every emoji of the table."""
    texts: list[list[str]] = [[] for _ in emoji_table()]
    for language in languages:
        names, keywords = _annotations(language)
        for text, name, words in zip(texts, names, keywords, strict=True):
            if captions != "keywords":
                text.append(name)
            if captions != "names":
                text.append(", ".join(words))
    return texts


def _pictures(drawing: Drawing, chosen: list[int], size: int) -> Tensor:
    """uint8 (len(chosen), 3, size, size), cut from the mosaics that hold them."""
    pictures = torch.empty(len(chosen), 3, size, size, dtype=torch.uint8)
    folder = files(__package__).joinpath(drawing)
    open_mosaic = -1
    for row, at in enumerate(chosen):
        number, tile = divmod(at, _PER_MOSAIC)
        if number != open_mosaic:
            data = folder.joinpath(f"{number:02d}.png").read_bytes()
            mosaic = Image.open(BytesIO(data)).convert("RGB")
            open_mosaic = number
        top, left = (side * _PIXELS for side in divmod(tile, _COLUMNS))
        picture = mosaic.crop((left, top, left + _PIXELS, top + _PIXELS))
        if size != _PIXELS:
            picture = picture.resize((size, size), Image.Resampling.BOX)
        pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
        pictures[row] = pixels.view(size, size, 3).permute(2, 0, 1)
    return pictures


def _check_choice(what: str, came: str, known: tuple[str, ...]) -> None:
    if came not in known:
        raise InputError(f"expected {what} to be of {', '.join(known)}, but came {came!r}")
