"""Training that starts from what came trained: pairs of encoders, frozen networks, sentences."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

pytest.importorskip("transformers", reason='transformers is absent: pip install "strop[hf]"')

from retrieval.test_pretrained_transformers import bert, clip, save, vit
from retrieval.tiny_training import TINY
from strop.data import ImageCaptions, TensorImages
from strop.retrieval import JointEmbedding, TrainSettings, evaluate, train_embedding
from strop.retrieval.embedding import embed_images
from strop.retrieval.features import cached_features
from strop.retrieval.views import View, centre_crop

CAPTIONS = ("a red heart", "a blue heart", "a red dog", "a blue dog")


def pictures() -> ImageCaptions:
    """Red and blue squares of two sizes."""
    images = torch.zeros(16, 3, 32, 32, dtype=torch.uint8)
    for row in range(16):
        side = 20 if row % 4 < 2 else 10
        images[row, 0 if row % 2 == 0 else 2, 4 : 4 + side, 4 : 4 + side] = 255 - row
    return ImageCaptions(
        images=TensorImages(images),
        names=tuple(f"{row}.png" for row in range(16)),
        captions=tuple(CAPTIONS[row % 4] for row in range(16)),
        image_of_caption=torch.arange(16),
        fields={"concept": tuple(CAPTIONS[row % 4] for row in range(16))},
    )


def larger(data: ImageCaptions) -> ImageCaptions:
    """The same pictures within a frame, of which crops show more or less."""
    images = data.images.batch(range(len(data.images)))
    framed = torch.nn.functional.pad(images, (4, 4, 4, 4), value=128)
    return replace(data, images=TensorImages(framed))


def one_of_each() -> ImageCaptions:
    return pictures().subset(range(4))


@pytest.fixture
def settings() -> TrainSettings:
    return replace(TINY, batch_size=8, epochs=3, learning_rate=1e-3)


@pytest.mark.parametrize("tuning", ["frozen", "lora", "whole"])
def test_a_pair_of_encoders_is_measured_before_and_after(
    tuning: str, tmp_path: Path, settings: TrainSettings
) -> None:
    if tuning == "lora":
        pytest.importorskip("peft", reason='peft is absent: pip install "strop[hf]"')
    name = save(clip(), tmp_path / "clip")
    trained = train_embedding(
        pictures(),
        one_of_each(),
        settings=replace(settings, dual_encoder=name, tuning=tuning),  # type: ignore[arg-type]
        out=tmp_path / "run",
        progress="quiet",
    )
    assert trained.zero_shot is not None
    assert trained.scores is not None
    losses = [one["loss"] for one in trained.history.records if one["event"] == "epoch"]
    assert losses[-1] < losses[0]
    loaded = JointEmbedding.from_pretrained(tmp_path / "run" / "model")
    assert evaluate(loaded, one_of_each()).to_dict() == trained.scores.to_dict()


def test_a_frozen_pair_starts_as_it_came(tmp_path: Path, settings: TrainSettings) -> None:
    from strop.retrieval.encoders import dual_encoder

    name = save(clip(), tmp_path / "clip")
    images, captions = dual_encoder(name)
    bare = JointEmbedding(
        images, captions, images.output_dim, project_images=False, project_captions=False
    )
    trained = train_embedding(
        pictures(),
        one_of_each(),
        settings=replace(settings, dual_encoder=name, tuning="frozen"),
        progress="quiet",
    )
    assert trained.zero_shot is not None
    assert trained.zero_shot.to_dict() == evaluate(bare.eval(), one_of_each()).to_dict()


@pytest.mark.parametrize("crop", ["auto", "1C", "10C"])
def test_a_frozen_network_runs_once_and_goes_into_the_model(
    crop: str, tmp_path: Path, settings: TrainSettings
) -> None:
    name = f"transformers:{save(vit(), tmp_path / 'vit', tokenizer=False)}"
    some = larger(one_of_each())
    trained = train_embedding(
        larger(pictures()),
        some,
        settings=replace(settings, image_encoder=name, crop=crop),  # type: ignore[arg-type]
        cache=tmp_path / "features",
        progress="quiet",
    )
    assert any((tmp_path / "features").rglob("*.safetensors"))
    assert trained.scores is not None
    trained.model.save_pretrained(tmp_path / "model")
    loaded = JointEmbedding.from_pretrained(tmp_path / "model")
    for model in (trained.model, loaded):  # which sees what the features were made of
        assert evaluate(model, some).to_dict() == trained.scores.to_dict()
    view: View = "whole" if crop == "auto" else crop  # type: ignore[assignment]
    features = cached_features(trained.model.image_encoder, some.images, folder=tmp_path, view=view)
    seen = torch.nn.functional.normalize(features, dim=1)
    with torch.no_grad():
        torch.testing.assert_close(loaded.image_encoder(some.images.batch(range(4))), seen)


def test_a_network_trained_on_random_crops_sees_the_centre(
    tmp_path: Path, settings: TrainSettings
) -> None:
    name = f"transformers:{save(vit(), tmp_path / 'vit', tokenizer=False)}"
    trained = train_embedding(
        larger(pictures()),
        None,
        settings=replace(settings, image_encoder=name, finetune_images=True, crop="RC"),
        progress="quiet",
    )
    images = larger(one_of_each()).images.batch(range(4))
    with torch.no_grad():
        seen = trained.model.embed_images(images)
        torch.testing.assert_close(seen, trained.model.embed_images(centre_crop(images, size=32)))
    files = [tmp_path / f"{row}.png" for row in range(4)]
    for picture, file in zip(images, files, strict=True):
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(file)
    torch.testing.assert_close(embed_images(trained.model, files), seen)


def test_the_two_stages_of_the_thesis(tmp_path: Path, settings: TrainSettings) -> None:
    name = f"transformers:{save(vit(), tmp_path / 'vit', tokenizer=False)}"
    first = train_embedding(
        pictures(),
        None,
        settings=replace(settings, image_encoder=name),
        cache=tmp_path / "features",
        progress="quiet",
    )
    before = {key: value.clone() for key, value in first.model.image_encoder.state_dict().items()}
    second = train_embedding(
        pictures(),
        None,
        settings=replace(settings, finetune_images=True, crop="none"),
        start_from=first.model,
        progress="quiet",
    )
    after = second.model.image_encoder.state_dict()
    assert any(not torch.equal(before[key], after[key].cpu()) for key in before)


def test_a_sentence_encoder_in_place_of_the_gru(tmp_path: Path, settings: TrainSettings) -> None:
    name = f"transformers:{save(bert(), tmp_path / 'bert', pictures=False)}"
    trained = train_embedding(
        pictures(),
        one_of_each(),
        settings=replace(settings, caption_encoder=name),
        progress="quiet",
    )
    assert trained.scores is not None
    assert type(trained.model.caption_encoder).__name__ == "SentenceEncoder"
