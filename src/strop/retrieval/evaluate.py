"""Scores of a model on image-caption data."""

from strop.data import ImageCaptions
from strop.retrieval.embedding import embed_captions, embed_images
from strop.retrieval.metrics import RetrievalScores, retrieval_metrics
from strop.retrieval.model import JointEmbedding


def evaluate(
    model: JointEmbedding, data: ImageCaptions, *, folds: int | None = None
) -> RetrievalScores:
    """Recalls and ranks in both directions, every image and caption of ``data`` in the gallery.

    ``folds=5`` averages over five consecutive slices of the images, as the thesis does for COCO's
    "1K" figures; without folds the whole is one gallery ("5K").
    """
    return retrieval_metrics(
        embed_images(model, data.images),
        embed_captions(model, data.captions),
        data.image_of_caption,
        similarity=model.similarity,
        folds=folds,
    )


def headline(scores: RetrievalScores) -> dict[str, float]:
    """The numbers to record along a training."""
    return {
        "rsum": scores.rsum,
        **{f"i2t_r{k}": value for k, value in scores.image_to_text.recall.items()},
        **{f"t2i_r{k}": value for k, value in scores.text_to_image.recall.items()},
    }
