"""Networks for small images, with and without batch normalisation, and their weights in files."""

from strop.models.by_name import load_classifier
from strop.models.classifier import Classifier, describe_network, save_classifier
from strop.models.layers import Normalize, initialise
from strop.models.resnet import ResNet, cifar_resnet, resnet18
from strop.models.small import RandomFeatures, describe_sequential, mlp, sequential, small_cnn
from strop.models.weights import load_weights, read_weights
from strop.models.wide_resnet import WideResNet

__all__ = [
    "Classifier",
    "Normalize",
    "RandomFeatures",
    "ResNet",
    "WideResNet",
    "cifar_resnet",
    "describe_network",
    "describe_sequential",
    "initialise",
    "load_classifier",
    "load_weights",
    "mlp",
    "read_weights",
    "resnet18",
    "save_classifier",
    "sequential",
    "small_cnn",
]
