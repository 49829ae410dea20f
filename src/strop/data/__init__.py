"""Data: what is read, made or fetched before anything is trained."""

from strop.data.captions import ImageCaptions
from strop.data.captions_assemble import NoSuchSplitError, check_images
from strop.data.captions_changes import wrong_captions
from strop.data.captions_door import (
    CaptionFormat,
    RecognisedCaptions,
    read_captions,
    recognise_captions,
)
from strop.data.captions_features import load_features, read_caption_features, with_features
from strop.data.captions_hugging_face import read_hugging_face
from strop.data.captions_json import read_coco_captions, read_karpathy
from strop.data.captions_tables import read_caption_table
from strop.data.captions_tokens import read_flickr_tokens
from strop.data.classification import Indexed, LabelledImages, to_unit_interval
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
from strop.data.image_files import BrokenImage, ImageFiles, decode_image
from strop.data.images import Images, TensorImages
from strop.data.samplers import (
    DistinctImageBatches,
    EpochBatches,
    StratifiedBatches,
    WeightedBatches,
)
from strop.data.sources import (
    Fetched,
    Verification,
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
from strop.support.folders import data_folders

__all__ = [
    "Blobs",
    "BrokenImage",
    "CaptionFormat",
    "DistinctImageBatches",
    "Download",
    "Emoji",
    "EpochBatches",
    "Fetched",
    "ImageCaptions",
    "ImageFiles",
    "ImageFormat",
    "Images",
    "Indexed",
    "LabelledImages",
    "LabelledPoints",
    "Layout",
    "NoSuchSplitError",
    "Part",
    "RandomFeaturesTeacher",
    "RecognisedCaptions",
    "SeparableGaussian",
    "Source",
    "StratifiedBatches",
    "TeacherPoints",
    "TensorImages",
    "Verification",
    "Vocabulary",
    "WeightedBatches",
    "blobs",
    "check_images",
    "corrupt_labels",
    "crop_and_flip",
    "data_folders",
    "decode_image",
    "duplicate",
    "emoji_table",
    "find_data",
    "get_source",
    "list_sources",
    "load_emoji",
    "load_features",
    "random_features_teacher",
    "read_caption_features",
    "read_caption_table",
    "read_captions",
    "read_coco_captions",
    "read_flickr_tokens",
    "read_hugging_face",
    "read_images",
    "read_karpathy",
    "recognise_captions",
    "recognise_images",
    "sample",
    "separable_gaussian",
    "smooth_labels",
    "subset",
    "teacher_points",
    "to_unit_interval",
    "tokenize",
    "verify_source",
    "with_features",
    "wrong_captions",
]
