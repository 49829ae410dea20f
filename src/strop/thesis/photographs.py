"""Photographs with classes of ImageNet: the closest to ImageNet that the data folders hold.

Flickr8k's photographs have captions and no classes. The last layer of EfficientNet-Lite0, which was
trained on ImageNet, names one of the 1,000 classes for each, from the features of that network that
lie beside the captions.
"""

import numpy as np
import torch

from strop.data import ImageFiles, LabelledImages, find_data

NEEDED = ("flickr8k", "efficientnet-lite0")
"""What must be in the data folders: the photographs with their features, and the last layer."""
CLASSES = 1000


def photographs(*, pixels: int) -> LabelledImages:
    """The middle of each photograph at ``pixels`` x ``pixels``, decoded when it is asked for.

    The labels are guesses of a network, 638 of the classes occur: a hard and noisy problem of many
    classes, as ImageNet is one.
    """
    place, network = (find_data(name) for name in NEEDED)
    with np.load(place / "features_efficientnet_lite0.npz", allow_pickle=False) as found:
        names = found["names"].tolist()
        features = torch.from_numpy(found["x"].astype(np.float32))
    weights = torch.load(
        network / "efficientnet-lite0-57934424.pth", map_location="cpu", weights_only=True
    )
    labels = (features @ weights["_fc.weight"].T + weights["_fc.bias"]).argmax(dim=1)
    files = ImageFiles(tuple(place / "images" / name for name in names), size=pixels)
    return LabelledImages.from_tensors(
        files, labels, class_names=tuple(str(number) for number in range(CLASSES))
    )
