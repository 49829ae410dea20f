"""Every format is read to the pixel, and every damaged file is named in one sentence."""

import gzip
import os
import pickle
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from strop.data import ImageFormat, read_images, recognise_images
from strop.support import InputError

CIFAR10_BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]


def random_pixels(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(
        f">{array.ndim}I", *array.shape
    )
    return header + array.tobytes()


def write_mnist(folder: Path, *, compressed: bool = False) -> dict[str, np.ndarray]:
    """Seven training and three test images of 28 x 28 in IDX files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for prefix, count in (("train", 7), ("t10k", 3)):
        images = random_pixels(count, 28, 28, seed=count)
        labels = np.arange(count, dtype=np.uint8)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            content = gzip.compress(idx(array)) if compressed else idx(array)
            suffix = ".gz" if compressed else ""
            (folder / f"{prefix}-{kind}-ubyte{suffix}").write_bytes(content)
        written[prefix] = images
    return written


def write_cifar10(folder: Path, *, binary: bool, protocol: int = 2) -> np.ndarray:
    """Four images a batch; returns the (24, 3, 32, 32) pixels, the test batch last."""
    folder.mkdir(parents=True, exist_ok=True)
    pixels = random_pixels(24, 3072)
    for number, name in enumerate(CIFAR10_BATCHES):
        rows, labels = pixels[4 * number : 4 * number + 4], [number, 0, 9, 5]
        if binary:
            records = np.concatenate([np.array(labels, np.uint8)[:, None], rows], axis=1)
            (folder / f"{name}.bin").write_bytes(records.tobytes())
        else:
            batch = {b"data": rows, b"labels": labels, b"filenames": [b"a.png"] * 4}
            (folder / name).write_bytes(pickle.dumps(batch, protocol=protocol))
    return pixels.reshape(-1, 3, 32, 32)


def write_cifar100(folder: Path, *, binary: bool) -> np.ndarray:
    folder.mkdir(parents=True, exist_ok=True)
    pixels = random_pixels(6, 3072)
    fine, coarse = [99, 0, 5, 7, 1, 2], [19, 0, 3, 3, 1, 2]
    names = {"fine": [f"fine{n}" for n in range(100)], "coarse": [f"coarse{n}" for n in range(20)]}
    for split, part in (("train", slice(0, 4)), ("test", slice(4, 6))):
        if binary:
            labels = np.array([coarse[part], fine[part]], np.uint8).T
            records = np.concatenate([labels, pixels[part]], axis=1)
            (folder / f"{split}.bin").write_bytes(records.tobytes())
        else:
            table = {
                "data": pixels[part],
                "fine_labels": fine[part],
                "coarse_labels": coarse[part],
            }
            (folder / split).write_bytes(pickle.dumps(table, protocol=2))
    if binary:
        for which, listed in names.items():
            (folder / f"{which}_label_names.txt").write_text("\n".join(listed) + "\n")
    else:
        meta = {f"{which}_label_names": listed for which, listed in names.items()}
        (folder / "meta").write_bytes(pickle.dumps(meta, protocol=2))
    return pixels.reshape(-1, 3, 32, 32)


def write_folder(folder: Path, *, sizes: tuple[int, int] = (8, 8)) -> np.ndarray:
    """Two classes, cats (two PNG files) and dogs (one, in a deeper folder)."""
    pixels = random_pixels(3, 8, 8, 3)
    for name, image in zip(("cats/b.png", "cats/a.PNG", "dogs/deep/c.png"), pixels, strict=True):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).resize(sizes if "dogs" in name else (8, 8)).save(path)
    (folder / "cats" / "notes.txt").write_text("no image")
    (folder / "cats" / "._a.png").write_text("no image either")
    return pixels


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("under", ["", "raw"])
def test_idx_is_read_to_the_pixel(tmp_path: Path, compressed: bool, under: str) -> None:
    written = write_mnist(tmp_path / under, compressed=compressed)
    for split, prefix in (("train", "train"), ("test", "t10k")):
        data = read_images(tmp_path, split=split)
        assert np.array_equal(data.images[:, 0].numpy(), written[prefix])
        assert data.labels.tolist() == list(range(len(written[prefix])))
    assert data.class_names == tuple("0123456789")
    assert data.record == (
        {"step": "read", "format": "IDX files", "path": tmp_path.as_posix(), "split": "test"},
    )


def test_a_known_name_is_found_in_the_data_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cifar10(tmp_path / "cifar-10-batches-bin", binary=True)
    monkeypatch.setenv("STROP_DATA", str(tmp_path))
    data = read_images("cifar10", split="test")
    assert len(data) == 4
    assert data.record[0]["path"] == (tmp_path / "cifar-10-batches-bin").as_posix()


def test_fashion_has_the_names_of_garments(tmp_path: Path) -> None:
    write_mnist(tmp_path / "FashionMNIST")
    assert read_images(tmp_path / "FashionMNIST").class_names[9] == "Ankle boot"


@pytest.mark.parametrize(
    ("binary", "protocol"), [(True, 2), (False, 0), (False, 2), (False, 4), (False, 5)]
)
def test_cifar10_is_read_to_the_pixel(tmp_path: Path, binary: bool, protocol: int) -> None:
    pixels = write_cifar10(tmp_path, binary=binary, protocol=protocol)
    train, test = (read_images(tmp_path, split=split) for split in ("train", "test"))
    assert np.array_equal(train.images.numpy(), pixels[:20])
    assert np.array_equal(test.images.numpy(), pixels[20:])
    assert test.labels.tolist() == [5, 0, 9, 5]
    assert train.labels[::4].tolist() == [0, 1, 2, 3, 4]
    assert train.class_names[9] == "truck"


def test_a_pickle_as_python_2_wrote_it_is_read(tmp_path: Path) -> None:
    """Python 2 wrote texts as byte strings and numpy as ``numpy.core``: spelled out by opcodes."""
    pixels = random_pixels(1, 3072)
    state = b"(I1\n(I1\nI3072\ntcnumpy\ndtype\n(S'u1'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR" + state
    raw = b"T" + struct.pack("<i", 3072) + pixels.tobytes()
    content = b"}(S'data'\n" + array + b"I00\n" + raw + b"tbS'labels'\n(lI7\naS'batch_label'\n"
    content += b"S'testing batch 1 of 1'\nu."
    (tmp_path / "test_batch").write_bytes(content)
    data = read_images(tmp_path, split="test")
    assert np.array_equal(data.images.numpy().reshape(1, -1), pixels)
    assert data.labels.tolist() == [7]


def test_a_pickled_array_may_lie_column_by_column(tmp_path: Path) -> None:
    pixels = random_pixels(4, 3072)
    batch = {"data": np.asfortranarray(pixels), "labels": [0, 1, 2, 3]}
    for protocol in (2, 5):
        (tmp_path / "test_batch").write_bytes(pickle.dumps(batch, protocol=protocol))
        data = read_images(tmp_path, split="test")
        assert np.array_equal(data.images.numpy().reshape(4, -1), pixels)


@pytest.mark.parametrize("binary", [True, False])
def test_cifar100_is_read_to_the_pixel(tmp_path: Path, binary: bool) -> None:
    pixels = write_cifar100(tmp_path, binary=binary)
    train, test = (read_images(tmp_path, split=split) for split in ("train", "test"))
    assert np.array_equal(torch.cat([train.images, test.images]).numpy(), pixels)
    assert train.labels.tolist() == [99, 0, 5, 7]
    assert train.class_names[99] == "fine99"
    coarse = read_images(tmp_path, split="test", coarse=True)
    assert coarse.labels.tolist() == [1, 2]
    assert coarse.class_names == tuple(f"coarse{number}" for number in range(20))


@pytest.mark.parametrize("binary", [True, False])
def test_cifar100_without_names_counts_its_classes(tmp_path: Path, binary: bool) -> None:
    write_cifar100(tmp_path, binary=binary)
    for listing in (*tmp_path.glob("*.txt"), *tmp_path.glob("meta")):
        listing.unlink()
    assert read_images(tmp_path).class_names[-1] == "99"


def test_a_folder_of_images_is_read_to_the_pixel(tmp_path: Path) -> None:
    pixels = write_folder(tmp_path / "train")
    data = read_images(tmp_path)
    assert data.class_names == ("cats", "dogs")
    assert data.labels.tolist() == [0, 0, 1]
    assert np.array_equal(data.images.permute(0, 2, 3, 1).numpy(), pixels[[1, 0, 2]])
    assert torch.equal(data.in_memory().batch([2])[0], data.batch([2])[0])
    assert "decoded from files" in repr(data)
    assert "3 x 8 x 8" in repr(data.in_memory())
    assert read_images(tmp_path / "train", split=None).labels.tolist() == [0, 0, 1]


def test_images_of_many_sizes_can_be_brought_to_one(tmp_path: Path) -> None:
    write_folder(tmp_path, sizes=(20, 10))
    data = read_images(tmp_path, split=None)
    assert data[2][0].shape == (3, 10, 20)
    with pytest.raises(InputError, match=r"8 x 8 and 10 x 20; read them with size="):
        _ = data.images
    assert read_images(tmp_path, split=None, size=6).images.shape == (3, 3, 6, 6)
    assert read_images(tmp_path, split=None, size=6, mode="L").images.shape == (3, 1, 6, 6)


def test_the_camera_s_orientation_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # lying on its side
    Image.new("RGB", (4, 2)).save(tmp_path / "a" / "photo.jpg", exif=exif)
    assert read_images(tmp_path, split=None)[0][0].shape == (3, 4, 2)


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (write_mnist, ImageFormat.IDX),
        (lambda folder: write_cifar10(folder, binary=True), ImageFormat.CIFAR10_BINARY),
        (lambda folder: write_cifar10(folder, binary=False), ImageFormat.CIFAR10_PYTHON),
        (lambda folder: write_cifar100(folder, binary=True), ImageFormat.CIFAR100_BINARY),
        (lambda folder: write_cifar100(folder, binary=False), ImageFormat.CIFAR100_PYTHON),
        (lambda folder: write_folder(folder / "train"), ImageFormat.FOLDER),
    ],
)
def test_the_door_says_what_it_recognised_and_names_an_unknown_split(
    tmp_path: Path, write: Callable[[Path], Any], expected: ImageFormat
) -> None:
    write(tmp_path)
    assert recognise_images(tmp_path) is expected
    assert expected.value in repr(read_images(tmp_path))
    with pytest.raises(InputError, match=r"expected the split .*train") as caught:
        read_images(tmp_path, split="validation")
    assert "'validation'" in str(caught.value)
    assert "\n" not in str(caught.value)


class Attack:
    """Unpickled by a careless reader, this runs a command."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("name", ["test_batch", "test", "meta"])
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path: Path, name: str) -> None:
    folder, mark = tmp_path / "data", tmp_path / "mark"
    (write_cifar10 if name == "test_batch" else write_cifar100)(folder, binary=False)
    hostile = pickle.dumps({"data": Attack(mark), "labels": []})
    (folder / name).write_bytes(hostile)
    with pytest.raises(InputError, match=r"system.*nothing in it was run") as caught:
        read_images(folder, split="test")
    assert name in str(caught.value)
    assert not mark.exists()
    pickle.loads(hostile)
    assert mark.exists(), "the attack is a real one"


@pytest.mark.parametrize(
    "value",
    [
        {"data": np.zeros((1, 3072)), "labels": [0]},
        {"data": np.array([object()], dtype=object), "labels": [0]},
        {"data": np.zeros((1, 3072), np.uint8, order="F")[:, ::-1].T, "labels": [0]},
        {"data": np.zeros((1, 3072), np.uint8)},
        {"data": np.zeros((2, 3072), np.uint8), "labels": [0]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": ["zero"]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": [10]},
        {"data": [0] * 3072, "labels": [0]},
        [1, 2],
        b"",
    ],
    ids=[
        "floats",
        "objects",
        "transposed",
        "no-labels",
        "too-few-labels",
        "text",
        "label-10",
        "list",
        "pair",
        "bytes",
    ],
)
def test_pickles_of_something_else_are_refused(tmp_path: Path, value: Any) -> None:
    content = value if value == b"" else pickle.dumps(value, protocol=4)
    (tmp_path / "test_batch").write_bytes(content)
    with pytest.raises(InputError, match="expected"):
        read_images(tmp_path, split="test")


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda path: cut(path, -1), r"expected 5,504 bytes .*7 x 28 x 28.*has 5,503"),
        (lambda path: path.write_bytes(path.read_bytes() + b"x"), "but it has 5,505"),
        (lambda path: cut(path, 9), "cut short"),
        (lambda path: path.write_bytes(b""), "begins with nothing"),
        (lambda path: path.write_bytes(b"<!DOCTYPE html>"), "3c 21 44 4f.*web page"),
        (lambda path: path.write_bytes(b"\0\0\x0d\1" + bytes(8)), "unsigned bytes"),
        (lambda path: path.write_bytes(gzip.compress(path.read_bytes())[:-9]), "whole gzip"),
        (lambda path: path.write_bytes(idx(random_pixels(6, 28, 28))), r"\(6, 28, 28\) and \(7,\)"),
    ],
)
def test_damaged_idx_files_are_named(
    tmp_path: Path, damage: Callable[[Path], None], complaint: str
) -> None:
    write_mnist(tmp_path)
    damage(tmp_path / "train-images-idx3-ubyte")
    with pytest.raises(InputError, match=complaint) as caught:
        read_images(tmp_path)
    assert "train-images-idx3-ubyte" in str(caught.value)
    assert len(read_images(tmp_path, split="test")) == 3


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    write_cifar10(tmp_path / "cifar", binary=True)
    (tmp_path / "cifar" / "data_batch_4.bin").unlink()
    with pytest.raises(InputError, match=r"data_batch_4.bin, but there is no such file"):
        read_images(tmp_path / "cifar")
    write_mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(InputError, match="t10k-labels-idx1-ubyte, but there is no such file"):
        read_images(tmp_path / "mnist", split="test")


@pytest.mark.parametrize(("name", "record"), [("test_batch.bin", "3,073"), ("test.bin", "3,074")])
def test_a_wrong_record_size_is_named(tmp_path: Path, name: str, record: str) -> None:
    (tmp_path / name).write_bytes(bytes(10_000))
    with pytest.raises(InputError, match=f"records of {record} bytes .*10,000"):
        read_images(tmp_path, split="test")


def test_a_label_beyond_the_classes_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(bytes([10]) + bytes(3072))
    with pytest.raises(InputError, match="labels from 0 to 9"):
        read_images(tmp_path, split="test")


@pytest.mark.parametrize(
    ("prepare", "complaint"),
    [
        (lambda path: None, "found neither; check the name"),
        (lambda path: path.write_bytes(b"x"), "is a file; give the folder"),
        (lambda path: path.mkdir(), "neither IDX nor CIFAR"),
        (lambda path: (path / "train" / "cats").mkdir(parents=True), "neither IDX nor CIFAR"),
        (lambda path: write_folder(path), "pass split=None"),
        (lambda path: write_folder(path / "val"), "its splits are val"),
    ],
)
def test_a_place_without_the_data_is_named(
    tmp_path: Path, prepare: Callable[[Path], Any], complaint: str
) -> None:
    prepare(tmp_path / "place")
    with pytest.raises(InputError, match=complaint) as caught:
        read_images(tmp_path / "place")
    assert str(tmp_path / "place") in str(caught.value)


def test_a_file_that_is_no_image_is_named_when_it_is_decoded(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "cats" / "b.png").write_bytes(b"not a picture")
    data = read_images(tmp_path, split=None)
    assert data[0][1] == 0
    with pytest.raises(InputError, match=re.escape(str(tmp_path / "cats" / "b.png"))):
        data[1]


@pytest.mark.parametrize("option", [{"coarse": True}, {"size": 8}, {"mode": "L"}])
def test_options_of_other_formats_are_refused(tmp_path: Path, option: dict[str, Any]) -> None:
    write_mnist(tmp_path)
    with pytest.raises(InputError, match="IDX files"):
        read_images(tmp_path, **option)
