"""Small image-caption data and a training of it, for tests and for the processes they start.

``python tiny_training.py OUT`` trains into OUT, in as many processes as ``torchrun`` started.
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch

from strop.data import ImageCaptions, TensorImages
from strop.retrieval import TrainSettings, train_embedding

COLOURS = ("red", "green", "blue", "yellow", "white", "black")
THINGS = ("cat", "dog", "boat", "tree", "star")
TINY = replace(
    TrainSettings(),
    embedding_dim=24,
    hidden_dim=24,
    word_dim=16,
    batch_size=16,
    epochs=12,
    learning_rate=1e-2,
    image_dropout=0.0,
    word_dropout=0.1,
)


def features(copies: int = 2) -> ImageCaptions:
    """Pairs of a colour and a thing as noisy features, each with its name."""
    generator = torch.Generator().manual_seed(0)
    codes = torch.randn(len(COLOURS) + len(THINGS), 32, generator=generator)
    names, rows, captions = [], [], []
    for copy in range(copies):
        for at, colour in enumerate(COLOURS):
            for other, thing in enumerate(THINGS, start=len(COLOURS)):
                noise = 0.05 * torch.randn(32, generator=generator)
                rows.append(codes[at] + codes[other] + noise)
                captions.append(f"a {colour} {thing}")
                names.append(f"{colour}-{thing}-{copy}")
    return ImageCaptions(
        images=TensorImages(torch.stack(rows)),
        names=tuple(names),
        captions=tuple(captions),
        image_of_caption=torch.arange(len(rows)),
        fields={"concept": tuple(captions)},
    )


def main(out: Path) -> None:
    settings = replace(TINY, epochs=2, word_dropout=0.0)
    train_embedding(
        features(), features(1), settings=settings, out=out, device="cpu", progress="quiet"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
