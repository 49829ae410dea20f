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
from strop.data.sources import (
    Fetched,
    Verification,
    data_folders,
    find_data,
    get_source,
    list_sources,
    verify_source,
)
from strop.data.sources_table import Download, Layout, Part, Source
from strop.data.synthetic import (
    Blobs,
    LabelledPoints,
    RandomFeaturesTeacher,
    SeparableGaussian,
    TeacherPoints,
    blobs,
    random_features_teacher,
    separable_gaussian,
    teacher_points,
)

__all__ = [
    "Blobs",
    "Download",
    "Fetched",
    "ImageFiles",
    "ImageFormat",
    "Indexed",
    "LabelledImages",
    "LabelledPoints",
    "Layout",
    "Part",
    "RandomFeaturesTeacher",
    "SeparableGaussian",
    "Source",
    "TeacherPoints",
    "Verification",
    "blobs",
    "corrupt_labels",
    "data_folders",
    "duplicate",
    "find_data",
    "get_source",
    "list_sources",
    "random_features_teacher",
    "read_images",
    "recognise_images",
    "sample",
    "separable_gaussian",
    "smooth_labels",
    "subset",
    "teacher_points",
    "to_unit_interval",
    "verify_source",
]
