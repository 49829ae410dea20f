import torch
from PIL import Image

from strop.data import ImageCaptions, ImageFiles
from strop.retrieval import assemble as room
from strop.retrieval.settings import TrainSettings


def picture_files(folder, count=4):
    paths = []
    for number in range(count):
        paths.append(folder / f"{number}.png")
        Image.new("RGB", (12, 9), (40 * number, 10, 200)).save(paths[-1])
    return ImageFiles(tuple(paths), size=8)


def pairs_of(images):
    names = tuple(f"picture {number}" for number in range(len(images)))
    data = ImageCaptions(
        images=images, names=names, captions=names, image_of_caption=torch.arange(len(images))
    )
    settings = TrainSettings(embedding_dim=4, hidden_dim=4, word_dim=4, min_count=1, crop="none")
    return room.assemble(data, settings, device=torch.device("cpu")).pairs


def test_few_picture_files_are_decoded_once(tmp_path):
    files = picture_files(tmp_path)
    expected = files.batch([2, 0])
    pairs = pairs_of(files)
    for path in files.paths:
        path.unlink()
    assert torch.equal(pairs(torch.tensor([2, 0])).images, expected)


def test_many_picture_files_are_decoded_as_they_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "DECODED_BYTES", 10)
    files = picture_files(tmp_path)
    pairs = pairs_of(files)
    Image.new("RGB", (8, 8), (255, 255, 255)).save(files.paths[2])
    assert bool((pairs(torch.tensor([2])).images == 255).all())
