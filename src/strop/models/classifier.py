"""Classifiers in files: safetensors weights whose metadata say which network they belong to."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from safetensors.torch import save_file
from torch import Tensor, nn

from strop.models.layers import Normalisation, Normalize
from strop.models.resnet import ResNet, Shortcut, cifar_resnet, resnet18
from strop.models.small import describe_sequential, sequential
from strop.models.weights import load_weights, read_safetensors, some
from strop.models.wide_resnet import WideResNet
from strop.support import InputError, writing


class Classifier(nn.Module):
    """A network behind its input normalisation: images in [0, 1] to logits.

    ``metadata`` are the texts of the file it came from: architecture, training, source and so on.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        normalize: Normalize | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.normalize: nn.Module = nn.Identity() if normalize is None else normalize
        self.network = network
        self.metadata = dict(metadata or {})

    def forward(self, images: Tensor) -> Tensor:
        return self.network(self.normalize(images))


def read_classifier(path: str | os.PathLike[str]) -> Classifier:
    """The classifier in a safetensors file, in evaluation mode on the CPU.

    The file's metadata build it: ``architecture`` (``cifar resnet-20``, ``resnet-18``,
    ``wide resnet-28-10``, or a chain such as ``Flatten Linear(784,10)``), for ResNets ``shortcut``,
    and optionally ``normalisation``, ``mean`` and ``std`` (JSON lists, or ``null``). The numbers of
    classes and of channels are those of the weights. Nothing in the file is run.
    """
    path = Path(path).expanduser()
    metadata, weights = read_safetensors(path)
    network = _build(metadata, weights, path)
    load_weights(network, weights, source=path)
    return Classifier(network, normalize=_normalize(metadata, path), metadata=metadata).eval()


def save_classifier(
    path: str | os.PathLike[str],
    classifier: nn.Module,
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a classifier so that :func:`~strop.models.load_classifier` builds it again.

    ``classifier`` is a :class:`Classifier` or one of this package's networks; ``metadata`` are
    further texts to keep in the file.
    """
    if not isinstance(classifier, Classifier):
        classifier = Classifier(classifier)
    texts = {**classifier.metadata, **describe_network(classifier.network), **(metadata or {})}
    if isinstance(classifier.normalize, Normalize):
        for name in ("mean", "std"):
            values = getattr(classifier.normalize, name).flatten().tolist()
            texts[name] = json.dumps([float(f"{value:.8g}") for value in values])
    weights = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in classifier.network.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    with writing(path) as partial:
        save_file(weights, partial, metadata=texts)


def describe_network(network: nn.Module) -> dict[str, str]:
    """The metadata from which :func:`~strop.models.load_classifier` builds a network of this shape.

    >>> describe_network(cifar_resnet(8, normalisation="none"))
    {'architecture': 'cifar resnet-8', 'shortcut': 'pad-both', 'normalisation': 'none'}
    """
    if isinstance(network, ResNet):
        extra = {"shortcut": network.shortcut_kind, "normalisation": network.normalisation}
        if network.widths == (16, 32, 64) and len(set(network.blocks)) == 1:
            return {"architecture": f"cifar resnet-{6 * network.blocks[0] + 2}", **extra}
        if (network.blocks, network.widths) == ((2, 2, 2, 2), (64, 128, 256, 512)):
            return {"architecture": "resnet-18", **extra}
        raise InputError(
            "expected a CIFAR ResNet or a ResNet-18, but this ResNet has "
            f"blocks {network.blocks} and widths {network.widths}; save its state_dict instead"
        )
    if isinstance(network, WideResNet):
        name = f"wide resnet-{network.depth}-{network.width}"
        return {"architecture": name, "normalisation": network.normalisation}
    if isinstance(network, nn.Sequential):
        return {"architecture": describe_sequential(network)}
    raise InputError(
        "expected a ResNet, a WideResNet or a chain of layers from strop.models, "
        f"but came {type(network).__name__}; save its state_dict instead"
    )


def _build(metadata: Mapping[str, str], weights: Mapping[str, Tensor], path: Path) -> nn.Module:
    if "architecture" not in metadata:
        raise InputError(
            f"expected the metadata of {path} to name its 'architecture', "
            f"but they have {', '.join(sorted(metadata)) or 'nothing'}; "
            "build the network yourself and use read_weights and load_weights"
        )
    text = metadata["architecture"].strip()
    if "resnet" not in text:
        return sequential(text)
    classes, channels = _ends(weights, path)
    normalisation = cast(Normalisation, metadata.get("normalisation", "batch"))
    if match := re.fullmatch(r"cifar resnet-(\d+)", text):
        return cifar_resnet(
            int(match[1]),
            classes=classes,
            channels=channels,
            shortcut=_shortcut(metadata, weights, path),
            normalisation=normalisation,
        )
    if text == "resnet-18":
        return resnet18(classes=classes, channels=channels, normalisation=normalisation)
    if match := re.fullmatch(r"wide resnet-(\d+)-(\d+)", text):
        return WideResNet(
            depth=int(match[1]),
            width=int(match[2]),
            classes=classes,
            channels=channels,
            normalisation=normalisation,
        )
    raise InputError(
        "expected the architecture 'cifar resnet-20', 'resnet-18' or 'wide resnet-28-10', or one "
        f"of other depth and width, in the metadata of {path}, but came {text!r}"
    )


def _ends(weights: Mapping[str, Tensor], path: Path) -> tuple[int, int]:
    """The numbers of classes and of image channels, which only the weights tell."""
    first, last = weights.get("conv1.weight"), weights.get("fc.weight")
    if first is None or first.ndim != 4 or last is None or last.ndim != 2:
        raise InputError(
            f"expected the convolution 'conv1.weight' and the matrix 'fc.weight' in {path}, "
            f"but it has {some(list(weights)) or 'no weights'}"
        )
    return last.shape[0], first.shape[1]


def _shortcut(metadata: Mapping[str, str], weights: Mapping[str, Tensor], path: Path) -> Shortcut:
    if "shortcut" in metadata:
        return cast(Shortcut, metadata["shortcut"])
    if any(".shortcut.0." in name for name in weights):
        return "conv"
    raise InputError(
        f"expected the metadata of {path} to name the 'shortcut', 'pad-both' or 'pad-end', which "
        "weights without shortcut convolutions do not tell apart, but they do not"
    )


def _normalize(metadata: Mapping[str, str], path: Path) -> Normalize | None:
    try:
        mean, std = (json.loads(metadata.get(name, "null")) for name in ("mean", "std"))
        if mean is None and std is None:
            return None
        return Normalize(mean=[float(value) for value in mean], std=[float(value) for value in std])
    except (TypeError, ValueError) as error:
        raise InputError(
            f"expected 'mean' and 'std' in the metadata of {path} as JSON lists of numbers, or "
            f"both null, but came {metadata.get('mean')!r} and {metadata.get('std')!r}"
        ) from error
