"""Image-caption sets of the ``datasets`` library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from strop.data.captions import ImageCaptions
from strop.data.captions_assemble import part_name
from strop.data.captions_tables import CAPTION_COLUMNS, IMAGE_COLUMNS
from strop.data.image_files import Fit, decode_image, picture_pixels
from strop.data.images import Indices, as_indices
from strop.support import InputError, require


@dataclass(frozen=True, eq=False)
class DatasetImages:
    """The image column of a ``datasets.Dataset``, decoded row by row when asked for."""

    dataset: Any
    column: str
    rows: tuple[int, ...]
    size: int | None = None
    fit: Fit = "crop"

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int, /) -> Tensor:
        row = self.rows[index]
        held = self.dataset[row][self.column]
        where = f"row {row} of the dataset, column {self.column!r}"
        if isinstance(held, str):
            return torch.from_numpy(decode_image(held, size=self.size, fit=self.fit))
        try:
            picture = _picture(held)
        except OSError as error:
            raise InputError(f"expected an image in {where}, but it is broken ({error})") from error
        if picture is None:
            raise InputError(
                f"expected a picture, a path or bytes in {where}, but it is a "
                f"{type(held).__name__}; name the right column with image_column="
            )
        pixels = picture_pixels(picture, where=where, size=self.size, fit=self.fit)
        return torch.from_numpy(pixels)

    def batch(self, indices: Indices, /) -> Tensor:
        chosen = as_indices(indices, length=len(self), of="images").tolist()
        if not chosen:
            return torch.empty(0, 3, self.size or 0, self.size or 0, dtype=torch.uint8)
        pictures = [self[index] for index in chosen]
        if len({picture.shape for picture in pictures}) > 1:
            raise InputError(
                "expected pictures of one size in a batch, but they differ; read the dataset with "
                "a size"
            )
        return torch.stack(pictures)

    def select(self, indices: Indices, /) -> "DatasetImages":
        chosen = as_indices(indices, length=len(self), of="images").tolist()
        return replace(self, rows=tuple(self.rows[index] for index in chosen))

    def describe(self) -> str:
        size = "their own sizes" if self.size is None else f"{self.size} x {self.size}"
        return f"pictures of a dataset, {size}"


def _picture(held: Any) -> Image.Image | None:
    if isinstance(held, Image.Image):
        return held
    if isinstance(held, Mapping) and held.get("bytes"):
        return Image.open(BytesIO(held["bytes"]))
    if isinstance(held, Mapping) and held.get("path"):
        return Image.open(held["path"])
    return None


def read_hugging_face(
    dataset: Any,
    *,
    split: str | None = None,
    image_column: str | None = None,
    caption_column: str | None = None,
    name_column: str | None = None,
    size: int | None = None,
    fit: Fit = "crop",
) -> ImageCaptions:
    """A ``datasets.Dataset``, a ``DatasetDict`` with a split, or the name of one.

    image_column, caption_column: by default the usual names (image; caption, text, ...). A row's
        captions may be one text or a list.
    name_column: what tells images apart; rows with the same name are captions of one image.
        Without it every row is an image of its own.
    size, fit: see :class:`~strop.data.ImageFiles`.
    """
    source = "dataset"
    if isinstance(dataset, str):
        source = f"dataset {dataset}"
        library = require("datasets", extra="hf", purpose=f"reading the dataset {dataset}")
        dataset = library.load_dataset(dataset)
    if isinstance(dataset, Mapping):
        dataset = _part(dataset, split)
        source += f", {split}"
    if not hasattr(dataset, "column_names") or not hasattr(dataset, "__len__"):
        raise InputError(
            f"expected a datasets.Dataset with rows that can be counted, but came a "
            f"{type(dataset).__name__}; load it without streaming"
        )
    columns = list(dataset.column_names)
    image_column = _column(image_column, IMAGE_COLUMNS, columns, "image")
    caption_column = _column(caption_column, CAPTION_COLUMNS, columns, "caption")
    if name_column is not None:
        name_column = _column(name_column, (), columns, "name")
    # A column is read alone, so that no picture is decoded for the sake of its caption.
    texts = [[text] if isinstance(text, str) else list(text) for text in dataset[caption_column]]
    names = [str(name) for name in (dataset[name_column] if name_column else range(len(texts)))]
    number = {name: at for at, name in enumerate(dict.fromkeys(names))}
    rows = {name: row for row, name in reversed(list(enumerate(names)))}
    captions = [
        (number[name], text) for name, each in zip(names, texts, strict=True) for text in each
    ]
    return ImageCaptions(
        images=DatasetImages(
            dataset, image_column, tuple(rows[name] for name in number), size, fit
        ),
        names=tuple(number),
        captions=tuple(text for _, text in captions),
        image_of_caption=torch.tensor([owner for owner, _ in captions], dtype=torch.long),
        source=source,
    )


def _part(parts: Mapping[str, Any], split: str | None) -> Any:
    known = {part_name(name): part for name, part in parts.items()}
    if split is None or part_name(split) not in known:
        raise InputError(
            f"expected split= to name one of the dataset's splits, {', '.join(parts)}, but it is "
            f"{split!r}"
        )
    return known[part_name(split)]


def _column(asked: str | None, usual: Sequence[str], columns: Sequence[str], what: str) -> str:
    lowered = {name.lower(): name for name in reversed(columns)}
    for name in usual if asked is None else (asked.lower(),):
        if name in lowered:
            return lowered[name]
    wanted = asked or f"{', '.join(usual[:3])} ..."
    raise InputError(
        f"expected a column of {what}s ({wanted}) in the dataset, but its columns are "
        f"{', '.join(columns)}; name it with {what}_column="
    )
