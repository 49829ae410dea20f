"""Image files: the right pixels, upright and on white; broken ones named; decoded ones kept."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from strop.data import ImageFiles, Images, TensorImages, decode_image
from strop.data.image_files import in_threads
from strop.support import InputError


def save(path: Path, pixels: np.ndarray, **options) -> Path:
    Image.fromarray(pixels).save(path, **options)
    return path


@pytest.fixture
def pictures(tmp_path, generator):
    """Five PNG files of 8 x 8 and their pixels."""
    pixels = torch.randint(0, 256, (5, 8, 8, 3), generator=generator, dtype=torch.uint8)
    paths = [save(tmp_path / f"{at}.png", pixels[at].numpy()) for at in range(5)]
    return tuple(paths), pixels.permute(0, 3, 1, 2)


def test_files_and_tensors_answer_alike(pictures):
    paths, pixels = pictures
    for images in (ImageFiles(paths), TensorImages(pixels)):
        assert isinstance(images, Images)
        assert len(images) == 5
        assert torch.equal(images[3], pixels[3])
        assert torch.equal(images.batch([4, 0]), pixels[[4, 0]])
        assert torch.equal(images.select([2, 1]).batch([0, 1]), pixels[[2, 1]])
        assert images.batch([]).shape[0] == 0
        with pytest.raises(InputError, match=r"in 0 \.\. 4, but one is 5"):
            images.batch([5])
    assert torch.equal(ImageFiles(paths).in_memory().values, pixels)


def test_crop_keeps_the_middle_and_stretch_keeps_everything(tmp_path):
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[:, :4] = 255  # a white band on the left, outside the middle square
    path = save(tmp_path / "wide.png", pixels)
    cropped = decode_image(path, size=8, fit="crop")
    stretched = decode_image(path, size=8, fit="stretch")
    assert cropped.shape == stretched.shape == (3, 8, 8)
    assert cropped.max() == 0
    assert stretched[:, :, 0].min() > 240


def test_pictures_are_turned_upright_as_their_exif_data_say(tmp_path):
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[:, :8] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright: turn by 90 degrees clockwise
    path = save(tmp_path / "turned.png", pixels, exif=exif)
    upright = decode_image(path)
    assert upright.shape == (3, 16, 8)
    assert upright[:, :8].min() == 255
    assert upright[:, 8:].max() == 0


@pytest.mark.parametrize("kind", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_put_on_white(tmp_path, kind):
    picture = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    path = tmp_path / "clear.png"
    if kind == "P":
        picture = Image.new("P", (4, 4), 0)
        picture.save(path, transparency=0)
    else:
        picture.convert(kind).save(path)
    assert decode_image(path).min() == 255


@pytest.mark.parametrize("kind", ["L", "1", "CMYK", "P"])
def test_every_colour_mode_becomes_three_channels_or_one(tmp_path, kind):
    path = tmp_path / ("picture.jpg" if kind == "CMYK" else "picture.png")
    Image.new("RGB", (4, 4), "white").convert(kind).save(path)
    assert decode_image(path).shape == (3, 4, 4)
    assert decode_image(path).min() > 250
    assert decode_image(path, mode="L").shape == (1, 4, 4)


def test_a_large_jpeg_is_reduced_to_what_full_decoding_gives(tmp_path, generator):
    noise = torch.rand(1, 3, 9, 9, generator=generator)
    smooth = torch.nn.functional.interpolate(noise, size=(640, 640), mode="bicubic").clamp(0, 1)
    pixels = (smooth[0].permute(1, 2, 0) * 255).byte().numpy()
    jpeg = save(tmp_path / "large.jpg", pixels, quality=95)
    png = save(tmp_path / "large.png", np.asarray(Image.open(jpeg)))
    difference = decode_image(jpeg, size=64).astype(int) - decode_image(png, size=64)
    assert np.abs(difference).max() <= 4


def broken_file(folder: Path, kind: str) -> Path:
    path = folder / "broken.jpg"
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    whole = save(folder / "whole.jpg", pixels).read_bytes()
    contents = {"empty": b"", "truncated": whole[: len(whole) // 2], "text": b"no image at all"}
    path.write_bytes(contents[kind])
    return path


@pytest.mark.parametrize(
    ("kind", "why"),
    [("empty", "the file is empty"), ("truncated", "truncated"), ("text", "cannot identify")],
)
def test_a_broken_image_is_named_with_its_reason(tmp_path, kind, why):
    path = broken_file(tmp_path, kind)
    with pytest.raises(InputError, match=rf"expected an image in .*broken\.jpg, but .*{why}"):
        ImageFiles((path,), size=8)[0]


def test_a_missing_image_is_named(tmp_path):
    with pytest.raises(InputError, match=r"missing\.jpg, but there is no such file"):
        ImageFiles((tmp_path / "missing.jpg",), cache=tmp_path / "cache")[0]


def test_decompression_bombs_are_refused_with_their_path(tmp_path, monkeypatch):
    path = save(tmp_path / "bomb.png", np.zeros((10, 15, 3), np.uint8))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 70)  # Pillow itself refuses beyond 140
    with pytest.raises(InputError, match=r"bomb\.png"):
        decode_image(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # and only warns below 200
    with (
        pytest.warns(Image.DecompressionBombWarning),
        pytest.raises(InputError, match=r"at most 100 pixels, but .*bomb\.png has 15 x 10"),
    ):
        decode_image(path)


def test_sixteen_bit_images_are_refused_rather_than_clipped(tmp_path):
    path = save(tmp_path / "deep.png", np.full((4, 4), 40_000, np.uint16))
    with pytest.raises(InputError, match=r"8 bits per channel, but .*deep\.png"):
        decode_image(path)


def test_pictures_of_several_sizes_need_a_size_to_make_a_batch(tmp_path):
    paths = tuple(
        save(tmp_path / f"{side}.png", np.zeros((side, side, 3), np.uint8)) for side in (4, 6)
    )
    with pytest.raises(InputError, match=r"6\.png is \(6, 6\).*give ImageFiles a size"):
        ImageFiles(paths).batch([0, 1])
    assert ImageFiles(paths, size=5).batch([0, 1]).shape == (2, 3, 5, 5)


def test_all_broken_images_are_found_before_training(tmp_path, pictures):
    paths, _ = pictures
    mixed = (*paths, broken_file(tmp_path, "truncated"), tmp_path / "missing.png")
    broken = ImageFiles(mixed, size=4, cache=tmp_path / "cache").broken()
    assert [(each.index, each.path) for each in broken] == [(5, mixed[5]), (6, mixed[6])]
    assert "truncated" in broken[0].reason


def test_cached_pictures_are_the_decoded_ones_and_need_no_decoding(tmp_path, pictures, monkeypatch):
    paths, _ = pictures
    fresh = ImageFiles(paths, size=6).batch(range(5))
    cached = ImageFiles(paths, size=6, cache=tmp_path / "cache")
    assert torch.equal(cached.batch(range(5)), fresh)
    monkeypatch.setattr(Image, "open", lambda path: pytest.fail(f"{path} is decoded again"))
    assert torch.equal(cached.batch(range(5)), fresh)


def test_the_cache_notices_a_changed_file_and_another_size(tmp_path, pictures):
    paths, pixels = pictures
    files = ImageFiles(paths, cache=tmp_path / "cache")
    assert torch.equal(files[0], pixels[0])
    assert ImageFiles(paths, size=4, cache=tmp_path / "cache")[0].shape == (3, 4, 4)
    before = paths[0].stat()
    save(paths[0], pixels[1].permute(1, 2, 0).numpy())
    os.utime(paths[0], ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert torch.equal(files[0], pixels[1])


def test_a_damaged_cache_is_repaired(tmp_path, pictures):
    paths, pixels = pictures
    files = ImageFiles(paths, cache=tmp_path / "cache")
    files[0]
    (kept,) = (tmp_path / "cache").rglob("*.npy")
    kept.write_bytes(kept.read_bytes()[:50])
    assert torch.equal(files[0], pixels[0])
    assert torch.equal(torch.from_numpy(np.load(kept)), pixels[0])


def test_an_unusable_cache_folder_is_named(tmp_path, pictures):
    paths, _ = pictures
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(InputError, match=r"keep decoded pictures in .*cache, but .*another cache"):
        ImageFiles(paths, cache=tmp_path / "cache")[0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mode": "CMYK"}, "'RGB' or 'L'"),
        ({"fit": "pad"}, "'crop' or 'stretch'"),
        ({"size": 0}, "1 pixel"),
    ],
)
def test_wrong_settings_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        ImageFiles((), **wrong)


@given(st.lists(st.integers()), st.integers(1, 4))
def test_threads_keep_the_order(items, threads):
    assert list(in_threads(lambda item: item * 2, items, threads=threads)) == [2 * i for i in items]
