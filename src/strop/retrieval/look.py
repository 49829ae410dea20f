"""Three pictures of how a model sees a data set: figures 3.3, 3.4 and 3.5 for any run."""

from collections.abc import Mapping
from pathlib import Path

import torch

from strop.data import ImageCaptions
from strop.retrieval.embedding import embed_captions, embed_images
from strop.retrieval.figures import draw_distributions, draw_hard_negatives, draw_top_captions
from strop.retrieval.looking import (
    Embedded,
    hard_negatives,
    similarity_distribution,
    top_captions,
)
from strop.retrieval.model import JointEmbedding
from strop.support import InputError, writing

SHOWN = 8  # queries of figures 3.3 and 3.4
WATCHED = 10  # images whose similarities are drawn, as in thesis section 3.3.4


def look(
    models: Mapping[str, JointEmbedding],
    data: ImageCaptions,
    *,
    out: str | Path,
    batch_size: int = 128,
    seed: int = 0,
) -> tuple[Path, ...]:
    """Draw into the folder ``out`` what the named models make of ``data``; the files' paths.

    ``hard-negatives.png``: the costliest negatives of the first model in a random mini-batch, each
    with its cost. ``top-captions.png``: the first caption of each model for random images, with the
    rank of the true one. ``similarities.png``: how similar captions are to images, true and false.
    """
    first = data.images[0]
    if first.ndim != 3:
        raise InputError(
            f"there is nothing to look at: the data hold {data.images.describe()}; give pictures"
        )
    embedded = {
        name: Embedded(
            embed_images(model, data.images),
            embed_captions(model, data.captions),
            model.similarity,
        )
        for name, model in models.items()
    }
    generator = torch.Generator().manual_seed(seed)
    with_caption = data.captions_per_image.nonzero().flatten()
    order = with_caption[torch.randperm(len(with_caption), generator=generator)]
    batch = order[:batch_size]
    captions = torch.stack([data.caption_indices_of(int(image))[0] for image in batch])
    one = next(iter(embedded.values()))
    pairs = Embedded(one.images[batch], one.captions[captions], one.similarity)
    records = hard_negatives(pairs)[:SHOWN]
    pictures = [data.images[int(image)] for image in batch]
    figures = {
        "hard-negatives.png": draw_hard_negatives(
            records, captions=[data.captions[int(row)] for row in captions], pictures=pictures
        ),
        "top-captions.png": draw_top_captions(
            top_captions(embedded, data.image_of_caption, images=order[:SHOWN].tolist()),
            captions=data.captions,
            pictures=data.images,  # type: ignore[arg-type]
        ),
        "similarities.png": draw_distributions(
            [
                similarity_distribution(
                    each, data.image_of_caption, label=name, images=order[:WATCHED].tolist()
                )
                for name, each in embedded.items()
            ]
        ),
    }
    for name, figure in figures.items():
        with writing(Path(out) / name) as partial:
            figure.savefig(partial, dpi=150, format="png")
    return tuple(Path(out) / name for name in figures)
