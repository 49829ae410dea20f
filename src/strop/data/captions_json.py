"""COCO's caption files, and the split files of Karpathy for COCO, Flickr8k and Flickr30K."""

from pathlib import Path
from typing import Any, Unpack

from strop.data.captions import ImageCaptions
from strop.data.captions_assemble import (
    FileOptions,
    NoSuchSplitError,
    PathLike,
    assemble,
    image_folder,
    part_name,
    part_names,
)
from strop.support import InputError, read_json


def is_karpathy(stored: Any) -> bool:
    """Whether a JSON value is a Karpathy split file: images that hold their sentences."""
    images = stored.get("images") if isinstance(stored, dict) else None
    return bool(images) and isinstance(images, list) and "sentences" in images[0]


def is_coco(stored: Any) -> bool:
    """Whether a JSON value is a COCO file: images, and annotations beside them."""
    return isinstance(stored, dict) and {"images", "annotations"} <= set(stored)


def read_coco_captions(
    path: PathLike, *, images: PathLike | None = None, **options: Unpack[FileOptions]
) -> ImageCaptions:
    """A COCO caption file, ``captions_val2017.json``: its images, in its order.

    images: the folder of the pictures; without it, one beside the file is found, such as
        ``../val2017``. An image without an annotation stays, without a caption.
    """
    path = Path(path)
    return coco_captions(read_json(path, what="COCO caption file"), path, images, **options)


def coco_captions(
    stored: Any, path: Path, images: PathLike | None, **options: Unpack[FileOptions]
) -> ImageCaptions:
    """:func:`read_coco_captions` of a file that is already read."""
    if not is_coco(stored):
        raise InputError(
            f"expected a COCO caption file with 'images' and 'annotations' in {path}, but it has "
            f"{_keys(stored)}"
        )
    name_of = {image["id"]: image["file_name"] for image in stored["images"]}
    captions: dict[str, list[str]] = {name: [] for name in name_of.values()}
    for annotation in stored["annotations"]:
        if "caption" not in annotation:
            raise InputError(
                f"expected captions in {path}, but its annotations have "
                f"{', '.join(annotation)}; take the file captions_*.json of the set"
            )
        if annotation["image_id"] not in name_of:
            raise InputError(
                f"expected every caption of {path} to belong to one of its {len(name_of):,} "
                f"images, but one belongs to the image {annotation['image_id']!r}; the file is "
                f"not whole"
            )
        captions[name_of[annotation["image_id"]]].append(annotation["caption"])
    folder = image_folder(images, near=path, names=tuple(captions))
    source = f"COCO captions of {path.name}"
    identifiers = {"id": tuple(str(identifier) for identifier in name_of)}
    return assemble(captions, folder=folder, source=source, fields=identifiers, **options)


def read_karpathy(
    path: PathLike,
    *,
    split: str | None = None,
    images: PathLike | None = None,
    **options: Unpack[FileOptions],
) -> ImageCaptions:
    """A split file of Karpathy, ``dataset_coco.json``, ``dataset_flickr30k.json``.

    split: ``"train"``, ``"validation"``, ``"test"``; for COCO also ``"train+restval"``, the
        113,287 images that the thesis calls its larger training set (section 3.3); ``None`` for
        all.
    images: the folder of the pictures, for COCO the one that holds ``train2014`` and ``val2014``;
        without it, one beside the file is found.
    """
    path = Path(path)
    stored = read_json(path, what="Karpathy split file")
    return karpathy_captions(stored, path, split, images, **options)


def karpathy_captions(
    stored: Any,
    path: Path,
    split: str | None,
    images: PathLike | None,
    **options: Unpack[FileOptions],
) -> ImageCaptions:
    """:func:`read_karpathy` of a file that is already read."""
    if not is_karpathy(stored):
        raise InputError(
            f"expected a Karpathy split file, whose images hold 'sentences', in {path}, but it has "
            f"{_keys(stored)}"
        )
    wanted = None if split is None else part_names(split)
    chosen = [
        image for image in stored["images"] if wanted is None or part_name(image["split"]) in wanted
    ]
    known = {part_name(image["split"]) for image in stored["images"]}
    if wanted is not None and not wanted <= known:
        raise NoSuchSplitError(
            f"expected the split {split!r} in {path}, but its splits are {', '.join(sorted(known))}"
        )
    captions = {
        str(Path(image.get("filepath", "")) / image["filename"]): [
            sentence["raw"] for sentence in image["sentences"]
        ]
        for image in chosen
    }
    folder = image_folder(images, near=path, names=tuple(captions))
    source = f"Karpathy split {path.name}" + (f", {split}" if split else "")
    parts = {"split": tuple(part_name(image["split"]) for image in chosen)}
    return assemble(captions, folder=folder, source=source, fields=parts, **options)


def _keys(stored: Any) -> str:
    return (
        ", ".join(map(repr, stored)) if isinstance(stored, dict) else f"a {type(stored).__name__}"
    )
