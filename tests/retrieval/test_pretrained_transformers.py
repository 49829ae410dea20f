"""Models of transformers: tiny ones with random weights, saved to a folder as real ones are."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip(
    "transformers", reason='transformers is not installed: pip install "strop[hf]"'
)

from strop.retrieval.encoders import (  # noqa: E402
    PretrainedImages,
    SentenceEncoder,
    dual_encoder,
    pretrained_images,
)
from strop.retrieval.encoders.build import build_captions, build_images, describe  # noqa: E402
from strop.retrieval.model import JointEmbedding  # noqa: E402
from strop.support import InputError  # noqa: E402

SIDE, WIDTH, JOINT, POSITIONS = 32, 16, 8, 12
WORDS = ["[PAD]", "[START]", "[END]", "[UNK]", "a", "red", "heart", "blue", "dog"]
LAYERS = {
    "hidden_size": WIDTH,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
VISION = {**LAYERS, "image_size": SIDE, "patch_size": 16}
TEXT = {
    **LAYERS,
    "vocab_size": len(WORDS),
    "max_position_embeddings": POSITIONS,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
CAPTIONS = ["a red heart", "a dog", "", "a blue dog a blue dog"]


def save(model: Any, folder: Path, *, tokenizer: bool = True, pictures: bool = True) -> str:
    """What a hub repository holds: configuration, weights, tokeniser, scaling of pictures."""
    model.save_pretrained(folder)
    if tokenizer:
        _tokenizer().save_pretrained(folder)
    if pictures:
        (folder / "preprocessor_config.json").write_text(
            json.dumps(
                {
                    "image_processor_type": "CLIPImageProcessor",
                    "image_mean": [0.4, 0.5, 0.6],
                    "image_std": [0.2, 0.25, 0.3],
                    "size": {"height": SIDE, "width": SIDE},
                }
            )
        )
    return str(folder)


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[START] $A [END]", special_tokens=[("[START]", 1), ("[END]", 2)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        bos_token="[START]",
        eos_token="[END]",
        unk_token="[UNK]",
        model_max_length=POSITIONS,
    )


def clip() -> Any:
    torch.manual_seed(0)
    config = transformers.CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=JOINT)
    return transformers.CLIPModel(config).eval()


def siglip() -> Any:
    torch.manual_seed(0)
    config = transformers.SiglipConfig(text_config=TEXT, vision_config=VISION)
    return transformers.SiglipModel(config).eval()


def bert() -> Any:
    torch.manual_seed(0)
    return transformers.BertModel(transformers.BertConfig(**TEXT)).eval()


def vit(**arguments: Any) -> Any:
    torch.manual_seed(0)
    return transformers.ViTModel(transformers.ViTConfig(**VISION), **arguments).eval()


def pictures(count: int = 3, side: int = SIDE) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=generator)


def normalised(images: torch.Tensor) -> torch.Tensor:
    mean = torch.tensor([0.4, 0.5, 0.6])[:, None, None]
    std = torch.tensor([0.2, 0.25, 0.3])[:, None, None]
    return (images / 255 - mean) / std


def through_json(encoder: Any) -> Any:
    return json.loads(json.dumps(describe(encoder)))


@pytest.fixture
def no_fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("weights were fetched")

    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", refuse)


def assert_same_vectors(one: Any, other: Any, inputs: Any, again: Any) -> None:
    with torch.no_grad():
        assert torch.equal(one.eval()(inputs), other.eval()(again))


def test_clip_pair_gives_the_similarities_of_clip(tmp_path: Path) -> None:
    model = clip()
    images, captions = dual_encoder(f"transformers:{save(model, tmp_path)}")
    encoded = _tokenizer()(CAPTIONS, padding=True, return_tensors="pt")
    encoded.pop("token_type_ids", None)
    with torch.no_grad():
        expected = model(pixel_values=normalised(pictures()), **encoded)
        vectors = images(pictures()), captions(captions.tokens(CAPTIONS))
    scale = model.logit_scale.exp()
    assert torch.allclose(scale * vectors[0] @ vectors[1].T, expected.logits_per_image, atol=1e-4)
    assert images.output_dim == captions.output_dim == JOINT


def test_siglip_pair_pads_to_full_length_as_it_was_trained(tmp_path: Path) -> None:
    model = siglip()
    images, captions = dual_encoder(f"transformers:{save(model, tmp_path)}")
    encoded = _tokenizer()(
        CAPTIONS, padding="max_length", max_length=POSITIONS, return_tensors="pt"
    )
    with torch.no_grad():
        expected = model(
            pixel_values=normalised(pictures()), input_ids=encoded["input_ids"]
        ).logits_per_image
        vectors = images(pictures()), captions(captions.tokens(CAPTIONS))
        one_by_one = torch.cat([captions(captions.tokens([caption])) for caption in CAPTIONS])
    logits = model.logit_scale.exp() * vectors[0] @ vectors[1].T + model.logit_bias
    assert torch.allclose(logits, expected, atol=1e-4)
    assert torch.allclose(one_by_one, vectors[1], atol=1e-6)
    taken = captions.tokens(CAPTIONS)[torch.tensor([1])]
    assert torch.allclose(captions(taken), vectors[1][1:2], atol=1e-6)


def test_a_pair_without_projections_retrieves_untrained_and_can_be_saved(tmp_path: Path) -> None:
    pair = dual_encoder(save(clip(), tmp_path / "clip"))
    model = JointEmbedding(*pair, JOINT, project_images=False, project_captions=False).eval()
    model.save_pretrained(tmp_path / "saved")
    shutil.rmtree(tmp_path / "clip")
    again = JointEmbedding.from_pretrained(tmp_path / "saved")
    with torch.no_grad():
        for one in (model, again):
            images, captions = one(pictures(), one.tokens(CAPTIONS))
            assert torch.equal(images, pair[0](pictures()))
            assert torch.equal(captions, pair[1](pair[1].tokens(CAPTIONS)))


def test_the_halves_of_a_pair_share_no_weights(tmp_path: Path) -> None:
    images, captions = dual_encoder(save(clip(), tmp_path))
    ours, theirs = (
        {tensor.data_ptr() for tensor in half.parameters()} for half in (images, captions)
    )
    assert not ours & theirs
    names = [*dict(images.named_parameters()), *dict(captions.named_parameters())]
    assert not [name for name in names if "logit" in name]
    assert not [name for name, _ in images.named_parameters() if "text" in name]
    assert not [name for name, _ in captions.named_parameters() if "visi" in name]


@pytest.mark.parametrize("mode", ["frozen", "lora", "whole"])
@pytest.mark.parametrize("model", [clip, siglip])
def test_a_pair_comes_back_from_its_description_without_fetching(
    mode: Any, model: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if mode == "lora":
        pytest.importorskip("peft", reason='peft is not installed: pip install "strop[hf]"')
    images, captions = dual_encoder(f"transformers:{save(model(), tmp_path)}", mode=mode)
    for weight in [*images.parameters(), *captions.parameters()]:
        if weight.requires_grad:
            weight.data.add_(0.01)  # so that what was learned matters
    request.getfixturevalue("no_fetching")
    for file in tmp_path.iterdir():
        file.unlink()
    images_again: Any = build_images(through_json(images))
    captions_again: Any = build_captions(through_json(captions))
    images_again.load_state_dict(images.state_dict())
    captions_again.load_state_dict(captions.state_dict())
    assert_same_vectors(images, images_again, pictures(), pictures())
    tokens, tokens_again = captions.tokens(CAPTIONS), captions_again.tokens(CAPTIONS)
    assert torch.equal(tokens.ids, tokens_again.ids)
    assert_same_vectors(captions, captions_again, tokens, tokens_again)
    assert through_json(images_again) == through_json(images)
    assert through_json(captions_again) == through_json(captions)


@pytest.mark.parametrize("model", [clip, siglip])
def test_lora_starts_at_the_model_and_learns_little(model: Any, tmp_path: Path) -> None:
    pytest.importorskip("peft", reason='peft is not installed: pip install "strop[hf]"')
    folder = save(model(), tmp_path)
    frozen, corrected = dual_encoder(folder), dual_encoder(folder, mode="lora", lora_rank=2)
    for encoder in corrected:
        learning = {name for name, weight in encoder.named_parameters() if weight.requires_grad}
        assert learning
        assert all("lora_" in name and name.startswith("backbone.") for name in learning)
        share = sum(dict(encoder.named_parameters())[name].numel() for name in learning)
        assert share < 0.5 * sum(weight.numel() for weight in encoder.parameters())
    plain_images, plain_captions = frozen
    images, captions = corrected
    tokens = captions.tokens(CAPTIONS)
    assert torch.allclose(images.train()(pictures()), plain_images(pictures()), atol=1e-6)
    assert torch.allclose(captions.train()(tokens), plain_captions(tokens), atol=1e-6)
    images(pictures()).sum().backward()
    assert any(
        weight.grad is not None and weight.grad.any()
        for name, weight in images.named_parameters()
        if "lora_B" in name
    )


def test_pictures_of_a_pair_can_be_had_alone(tmp_path: Path) -> None:
    folder = save(clip(), tmp_path)
    pair, alone = dual_encoder(folder)[0], pretrained_images(folder)
    assert_same_vectors(pair, alone, pictures(), pictures())


def test_a_vision_model_gives_its_pooled_vector(tmp_path: Path) -> None:
    model = vit()
    encoder = pretrained_images(f"transformers:{save(model, tmp_path, tokenizer=False)}")
    with torch.no_grad():
        expected = model(pixel_values=normalised(pictures())).pooler_output
        assert torch.allclose(encoder.features(pictures()), expected, atol=1e-5)
        assert torch.allclose(encoder(pictures()).norm(dim=1), torch.ones(3))


def test_an_untrained_pooler_is_passed_over(tmp_path: Path) -> None:
    """Checkpoints of classifiers lack the pooler: it would be filled with noise."""
    model = vit(add_pooling_layer=False)
    encoder = pretrained_images(save(model, tmp_path, tokenizer=False))
    with torch.no_grad():
        expected = model(pixel_values=normalised(pictures())).last_hidden_state[:, 0]
        assert torch.allclose(encoder.features(pictures()), expected, atol=1e-5)
    again: Any = build_images(through_json(encoder))
    again.load_state_dict(encoder.state_dict())
    assert_same_vectors(encoder, again, pictures(), pictures())


def test_a_convolutional_model_is_pooled_over_the_picture(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic"
    )
    model = transformers.ResNetModel(config).eval()
    encoder = pretrained_images(save(model, tmp_path, tokenizer=False))
    with torch.no_grad():
        maps = model(pixel_values=normalised(pictures())).last_hidden_state
        assert torch.allclose(encoder.features(pictures()), maps.mean(dim=(2, 3)), atol=1e-5)
    encoder.train()
    before = {name: buffer.clone() for name, buffer in encoder.named_buffers()}
    encoder(pictures())
    assert all(torch.equal(before[name], buffer) for name, buffer in encoder.named_buffers())


def test_pictures_of_another_size_are_resized(tmp_path: Path) -> None:
    encoder = pretrained_images(save(vit(), tmp_path, tokenizer=False))
    flat = torch.full((1, 3, 50, 40), 200, dtype=torch.uint8)
    expected = encoder(torch.full((1, 3, SIDE, SIDE), 200, dtype=torch.uint8))
    assert torch.allclose(encoder(flat), expected, atol=1e-5)


@pytest.mark.parametrize("pool", ["mean", "first"])
def test_a_sentence_is_the_mean_of_its_tokens_or_the_first(pool: Any, tmp_path: Path) -> None:
    model = bert()
    encoder = SentenceEncoder.from_pretrained(save(model, tmp_path, pictures=False), pool=pool)
    for caption, vector in zip(CAPTIONS, encoder.features(encoder.tokens(CAPTIONS)), strict=True):
        with torch.no_grad():
            states = model(**_tokenizer()([caption], return_tensors="pt")).last_hidden_state[0]
        expected = states.mean(dim=0) if pool == "mean" else states[0]
        assert torch.allclose(vector, expected, atol=1e-5)
    assert encoder.output_dim == WIDTH


def test_a_sentence_encoder_comes_back_from_its_description(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    encoder = SentenceEncoder.from_pretrained(save(bert(), tmp_path), frozen=False)
    request.getfixturevalue("no_fetching")
    again: Any = build_captions(through_json(encoder))
    again.load_state_dict(encoder.state_dict())
    assert_same_vectors(encoder, again, encoder.tokens(CAPTIONS), again.tokens(CAPTIONS))
    assert all(weight.requires_grad for weight in again.parameters())


def test_frozen_means_no_dropout_and_no_gradient(tmp_path: Path) -> None:
    folder = save(bert(), tmp_path)
    frozen = SentenceEncoder.from_pretrained(folder).train()
    tokens = frozen.tokens(CAPTIONS)
    assert torch.equal(frozen(tokens), frozen(tokens))
    assert not frozen(tokens).requires_grad
    learning = SentenceEncoder.from_pretrained(folder, frozen=False).train()
    assert not torch.equal(learning(tokens), learning(tokens))
    assert learning(tokens).requires_grad


def test_long_captions_are_cut_at_the_last_position(tmp_path: Path) -> None:
    encoder = SentenceEncoder.from_pretrained(save(bert(), tmp_path))
    tokens = encoder.tokens(["a dog " * 20, "a dog"])
    assert tokens.ids.shape == (2, POSITIONS)
    assert tokens.lengths.tolist() == [POSITIONS, 4]
    assert encoder(tokens).isfinite().all()


def test_half_precision_checkpoints_train_in_full(tmp_path: Path) -> None:
    encoder: PretrainedImages = pretrained_images(
        save(vit().half(), tmp_path, tokenizer=False), frozen=False
    )
    assert {weight.dtype for weight in encoder.parameters()} == {torch.float32}


def test_what_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot load"):
        pretrained_images(f"transformers:{tmp_path / 'absent'}")
    folder = save(vit(), tmp_path / "bare", tokenizer=False, pictures=False)
    with pytest.raises(InputError, match=r"preprocessor_config\.json"):
        pretrained_images(folder)
    with pytest.raises(InputError, match="no common space"):
        dual_encoder(folder)
    with pytest.raises(InputError, match="tokeniser"):
        SentenceEncoder.from_pretrained(folder)


def test_a_torn_checkpoint_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = Path(save(vit(), tmp_path, tokenizer=False))
    weights = load_file(folder / "model.safetensors")
    gone = next(name for name in weights if "layer" in name and "weight" in name)
    del weights[gone]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="lack 1 weights"):
        pretrained_images(str(folder))


def test_a_real_sentence_encoder_finds_the_caption_of_the_same_photograph(
    real_data: Callable[[str], Path],
) -> None:
    folder = next(real_data("minilm").rglob("modules.json")).parent
    lines = (real_data("flickr8k") / "captions.txt").read_text().splitlines()[1:]
    captions = [line.partition(",")[2] for line in lines[:200]]  # five to each photograph
    encoder = SentenceEncoder.from_pretrained(str(folder))
    with torch.no_grad():
        vectors = encoder(encoder.tokens(captions)).view(40, 5, encoder.output_dim)
    found = (vectors[:, 0] @ vectors[:, 1].T).argmax(dim=1)
    assert (found == torch.arange(40)).float().mean() > 0.7  # by chance it would be 0.025
