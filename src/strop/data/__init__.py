"""Data: what is read, made or fetched before anything is trained."""

from strop.data.classification import ImageFiles, Indexed, LabelledImages, to_unit_interval
from strop.data.classification_changes import (
    corrupt_labels,
    duplicate,
    sample,
    smooth_labels,
    subset,
)
from strop.data.classification_door import ImageFormat, read_images, recognise_images

__all__ = [
    "ImageFiles",
    "ImageFormat",
    "Indexed",
    "LabelledImages",
    "corrupt_labels",
    "duplicate",
    "read_images",
    "recognise_images",
    "sample",
    "smooth_labels",
    "subset",
    "to_unit_interval",
]
