"""EfficientNet-Lite0: its shape, its weights file, and features of real photographs."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from strop.models.efficientnet import EfficientNetLite0, _same_padding
from strop.support import InputError

_THEIR_NAMES = {
    r"^stem\.conv": "_conv_stem",
    r"^stem\.norm": "_bn0",
    r"^head\.conv": "_conv_head",
    r"^head\.norm": "_bn1",
    r"^classifier": "_fc",
    r"^blocks": "_blocks",
    r"expand\.conv": "_expand_conv",
    r"expand\.norm": "_bn0",
    r"depthwise\.conv": "_depthwise_conv",
    r"depthwise\.norm": "_bn1",
    r"project\.conv": "_project_conv",
    r"project\.norm": "_bn2",
}


def _their_weights(network: EfficientNetLite0) -> dict[str, Tensor]:
    renamed = {}
    for name, tensor in network.state_dict().items():
        for ours, theirs in _THEIR_NAMES.items():
            name = re.sub(ours, theirs, name)
        renamed[name] = tensor
    return renamed


def test_it_has_the_published_number_of_weights() -> None:
    assert sum(weight.numel() for weight in EfficientNetLite0().parameters()) == 4_652_008


def test_a_checkpoint_with_the_widespread_names_gives_the_same_network(tmp_path: Path) -> None:
    network = EfficientNetLite0(classes=7).eval()
    torch.save(_their_weights(network), tmp_path / "weights.pth")
    loaded = EfficientNetLite0.from_checkpoint(tmp_path / "weights.pth").eval()
    pictures = torch.randint(0, 256, (2, 3, 33, 40), dtype=torch.uint8)
    assert torch.equal(loaded(pictures), network(pictures))


def test_bytes_and_floats_of_the_same_values_are_the_same_picture() -> None:
    network = EfficientNetLite0(classes=2).eval()
    pictures = torch.randint(0, 256, (1, 3, 32, 32), dtype=torch.uint8)
    assert torch.equal(network(pictures), network(pictures.float()))


@given(pixels=st.integers(1, 300), kernel=st.sampled_from([1, 3, 5]), stride=st.integers(1, 2))
def test_same_padding_gives_one_output_for_each_stride(
    pixels: int, kernel: int, stride: int
) -> None:
    before, after = _same_padding(pixels, kernel, stride)
    outputs = (pixels + before + after - kernel) // stride + 1
    assert outputs == -(-pixels // stride)
    assert 0 <= after - before <= 1


def test_what_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        EfficientNetLite0.from_checkpoint(tmp_path / "absent.pth")
    (tmp_path / "torn.pth").write_bytes(b"not a zip file")
    with pytest.raises(InputError, match=r"torn\.pth is not a weights file"):
        EfficientNetLite0.from_checkpoint(tmp_path / "torn.pth")
    torch.save({"weight": torch.zeros(2)}, tmp_path / "other.pth")
    with pytest.raises(InputError, match="from _conv_stem to _fc"):
        EfficientNetLite0.from_checkpoint(tmp_path / "other.pth")
    torch.save({"_fc.weight": torch.zeros(2, 1280)}, tmp_path / "half.pth")
    with pytest.raises(InputError, match="not of EfficientNet-Lite0"):
        EfficientNetLite0.from_checkpoint(tmp_path / "half.pth")


def test_grey_pictures_are_refused() -> None:
    with pytest.raises(InputError, match=r"\(batch, 3, height, width\)"):
        EfficientNetLite0()(torch.zeros(2, 1, 32, 32))


def test_features_of_photographs_find_the_stored_ones(real_data: Callable[[str], Path]) -> None:
    """The stored features seem to be of another rendering of the photographs: near, not equal."""
    weights = next(real_data("efficientnet-lite0").glob("*.pth"))
    folder = real_data("flickr8k")
    stored = np.load(folder / "features_efficientnet_lite0.npz")
    names, expected = stored["names"][::400], torch.from_numpy(stored["x"][::400]).float()
    pictures = torch.stack(
        [
            torch.from_numpy(np.array(Image.open(folder / "images" / name))).permute(2, 0, 1)
            for name in names
        ]
    )
    with torch.inference_mode():
        features = EfficientNetLite0.from_checkpoint(weights).eval().features(pictures)
    cosines = torch.cosine_similarity(features[:, None], expected[None], dim=2)
    assert torch.equal(cosines.argmax(dim=1), torch.arange(len(names)))
    assert cosines.diagonal().mean() > 0.9
