"""Features on disk: made once, made anew for others, and a killed run goes on."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

from strop.data import Vocabulary
from strop.data.images import TensorImages
from strop.retrieval.encoders import GRUEncoder, PrecomputedCaptions, SmallConvNet
from strop.retrieval.features import cached_caption_features, cached_features
from strop.retrieval.views import centre_crop, ten_crops
from strop.support import InputError


class Counting(SmallConvNet):
    """A small network that counts the pictures it has seen."""

    seen = 0

    def forward(self, images: Tensor) -> Tensor:
        self.seen += len(images)
        return super().forward(images)


def encoder(seed: int = 0) -> Counting:
    torch.manual_seed(seed)
    made = Counting(image_size=12, widths=(4, 6))
    made(torch.rand(8, 3, 12, 12) * 255)  # batch statistics of their own
    made.seen = 0
    return made


def pictures(count: int = 10, side: int = 14) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=generator)


def one_by_one(network: nn.Module, images: Tensor, view: str) -> Tensor:
    network.eval()
    with torch.no_grad():
        if view == "10C":
            return torch.stack([network(ten_crops(p[None], size=12)[0]).mean(0) for p in images])
        cut = images if view == "whole" else centre_crop(images, size=12)
        return torch.cat([network(p[None]) for p in cut])


@pytest.mark.parametrize("view", ["whole", "1C", "10C"])
@pytest.mark.parametrize(("batch_size", "shard_size"), [(1, 3), (4, 4), (100, 100)])
def test_features_are_the_mean_over_views(
    view: Any, batch_size: int, shard_size: int, tmp_path: Path
) -> None:
    network = encoder()
    made = cached_features(
        network,
        pictures(),
        folder=tmp_path,
        view=view,
        batch_size=batch_size,
        shard_size=shard_size,
    )
    assert torch.allclose(made, one_by_one(network, pictures(), view), atol=1e-6)


def test_the_second_time_they_are_read(tmp_path: Path) -> None:
    network = encoder()
    first = cached_features(network, pictures(), folder=tmp_path)
    seen = network.seen
    assert seen == 10
    assert torch.equal(cached_features(network, pictures(), folder=tmp_path), first)
    assert torch.equal(cached_features(encoder(), TensorImages(pictures()), folder=tmp_path), first)
    assert network.seen == seen
    assert [file.name for file in tmp_path.rglob("*.safetensors")] == ["features.safetensors"]
    assert not first.requires_grad


def test_another_encoder_view_or_picture_is_never_given_the_same_features(tmp_path: Path) -> None:
    network = encoder()
    first = cached_features(network, pictures(), folder=tmp_path)
    changed = pictures()
    changed[-1, 0, 5, 5] ^= 1
    for other, images, view in [
        (encoder(seed=1), pictures(), "1C"),
        (network, pictures(), "10C"),
        (network, changed, "1C"),
        (network, pictures()[:9], "1C"),
    ]:
        made = cached_features(other, images, folder=tmp_path, view=view)  # type: ignore[arg-type]
        assert torch.allclose(made, one_by_one(other, images, view), atol=1e-6)
    network.stages[0].enter_norm.running_mean += 1
    assert not torch.equal(cached_features(network, pictures(), folder=tmp_path), first)


def test_what_only_training_uses_does_not_count(tmp_path: Path) -> None:
    plain, dropping = encoder(), encoder()
    dropping.dropout.p = 0.5
    cached_features(plain, pictures(), folder=tmp_path)
    cached_features(dropping.train(), pictures(), folder=tmp_path)
    assert dropping.seen == 0


def test_the_encoder_is_left_as_it_was(tmp_path: Path) -> None:
    network = encoder().train()
    network.stages[1].eval()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    cached_features(network, pictures(), folder=tmp_path, device="cpu")
    assert network.training
    assert not network.stages[1].training
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())


class Killed(BaseException):
    pass


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    def kill(done: int, of: int) -> None:
        if done == 8:
            raise Killed

    network = encoder()
    arguments: dict[str, Any] = {"folder": tmp_path, "batch_size": 2, "shard_size": 4}
    with pytest.raises(Killed):
        cached_features(network, pictures(), progress=kill, **arguments)
    assert not list(tmp_path.rglob("features.safetensors"))
    network.seen = 0
    made = cached_features(network, pictures(), **arguments)
    assert network.seen == 6  # the first shard of four was whole
    assert torch.allclose(made, one_by_one(network, pictures(), "1C"), atol=1e-6)


@pytest.mark.parametrize("damage", ["torn", "foreign"])
def test_a_damaged_file_is_made_anew(damage: str, tmp_path: Path) -> None:
    network = encoder()
    first = cached_features(network, pictures(), folder=tmp_path)
    (file,) = tmp_path.rglob("features.safetensors")
    if damage == "torn":
        file.write_bytes(file.read_bytes()[:-7])
    else:
        other = tmp_path / "other"
        cached_features(encoder(seed=1), pictures(), folder=other)
        file.write_bytes(next(other.rglob("features.safetensors")).read_bytes())
    assert torch.equal(cached_features(network, pictures(), folder=tmp_path), first)
    assert network.seen == 20


def test_half_precision_is_kept_on_disk_only(tmp_path: Path) -> None:
    network = encoder()
    full = cached_features(network, pictures(), folder=tmp_path / "full")
    half = cached_features(network, pictures(), folder=tmp_path / "half", half=True)
    assert half.dtype == torch.float32
    assert torch.equal(half, full.half().float())
    (file,) = (tmp_path / "half").rglob("*.safetensors")
    with safe_open(file, framework="pt") as opened:
        assert opened.get_tensor("features").dtype == torch.float16


def test_features_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    class Broken(SmallConvNet):
        def forward(self, images: Tensor) -> Tensor:
            made = super().forward(images)
            return made * torch.where(images[:, :1, 0, 0] == 77, float("nan"), 1.0)

    network = Broken(image_size=14, widths=(4,))
    images = pictures()
    images[images == 77] = 0
    images[6, 0, 0, 0] = 77
    with pytest.raises(InputError, match="the feature of number 6 holds NaN"):
        cached_features(network, images, folder=tmp_path, view="whole", batch_size=4)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_features_too_large_for_half_precision_are_refused(tmp_path: Path) -> None:
    network = encoder()
    with torch.no_grad():
        network.stages[1].refine_norm.bias.fill_(1e6)
    with pytest.raises(InputError, match="too large for float16"):
        cached_features(network, pictures(), folder=tmp_path, half=True)


class Files:
    """Images in files, as the data layer has them: ``paths`` and ``batch``."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        return torch.load(self.paths[index], weights_only=True)

    def batch(self, indices: Any) -> Tensor:
        return torch.stack([self[index] for index in indices])

    def select(self, indices: Any) -> "Files":
        return Files([self.paths[index] for index in indices])

    def describe(self) -> str:
        return "pictures in files"


def test_files_are_known_by_path_length_and_time(tmp_path: Path) -> None:
    paths = [tmp_path / f"{row}.pt" for row in range(10)]
    for path, picture in zip(paths, pictures(), strict=True):
        torch.save(picture, path)
    network, files, cache = encoder(), Files(paths), tmp_path / "cache"
    first = cached_features(network, files, folder=cache)
    assert torch.allclose(first, one_by_one(network, pictures(), "1C"), atol=1e-6)
    cached_features(network, files, folder=cache)
    assert network.seen == 20  # ten by the cache, ten by the check above
    torch.save(pictures()[0] // 2, paths[3])
    os.utime(paths[3], ns=(1, 1))
    again = cached_features(network, files, folder=cache)
    assert not torch.equal(again[3], first[3])
    assert torch.equal(again[[0, 9]], first[[0, 9]])
    paths[3].unlink()
    with pytest.raises(InputError, match=r"expected an image at .*3\.pt"):
        cached_features(network, files, folder=cache)


def test_views_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'whole', '1C' or '10C'"):
        cached_features(encoder(), pictures(), folder=tmp_path, view="RC")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="crop of 20 x 20"):
        cached_features(encoder(), pictures(), folder=tmp_path, crop=20)
    with pytest.raises(InputError, match="empty"):
        cached_features(encoder(), pictures()[:0], folder=tmp_path)


def test_captions_are_kept_too(tmp_path: Path) -> None:
    captions = ["a red heart", "a dog", "", "a dog runs"] * 3
    torch.manual_seed(0)
    words = GRUEncoder(Vocabulary.build(captions, min_count=1), word_dim=4, hidden_dim=5)
    made = cached_caption_features(words, captions, folder=tmp_path, batch_size=5, shard_size=7)
    with torch.no_grad():
        assert torch.allclose(made, words(words.tokens(captions)), atol=1e-6)
    assert torch.equal(cached_caption_features(words, captions, folder=tmp_path), made)
    other = cached_caption_features(words, captions[::-1], folder=tmp_path)
    assert torch.allclose(other, made.flip(0), atol=1e-6)
    table = PrecomputedCaptions(words)
    table.add(captions, made)
    expected = nn.functional.normalize(made[:2], dim=1)
    assert torch.allclose(table(table.tokens(captions[:2])), expected)
