"""Data: what is read, made or fetched before anything is trained."""

from strop.data.captions import ImageCaptions
from strop.data.classification import ImageFiles, Indexed, LabelledImages, to_unit_interval
from strop.data.classification_augment import crop_and_flip
from strop.data.classification_changes import (
    corrupt_labels,
    duplicate,
    sample,
    smooth_labels,
    subset,
)
from strop.data.classification_door import ImageFormat, read_images, recognise_images
from strop.data.emoji import Emoji, emoji_table, load_emoji
from strop.data.images import Images, TensorImages
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
from strop.data.vocabulary import Vocabulary, tokenize

__all__ = [
    "Blobs",
    "Download",
    "Emoji",
    "Fetched",
    "ImageCaptions",
    "ImageFiles",
    "ImageFormat",
    "Images",
    "Indexed",
    "LabelledImages",
    "LabelledPoints",
    "Layout",
    "Part",
    "RandomFeaturesTeacher",
    "SeparableGaussian",
    "Source",
    "TeacherPoints",
    "TensorImages",
    "Verification",
    "Vocabulary",
    "blobs",
    "corrupt_labels",
    "crop_and_flip",
    "data_folders",
    "duplicate",
    "emoji_table",
    "find_data",
    "get_source",
    "list_sources",
    "load_emoji",
    "random_features_teacher",
    "read_images",
    "recognise_images",
    "sample",
    "separable_gaussian",
    "smooth_labels",
    "subset",
    "teacher_points",
    "to_unit_interval",
    "tokenize",
    "verify_source",
]
