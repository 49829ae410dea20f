"""Captions whose vectors come from a table, features whose columns come from several networks."""

import json
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from strop.data import Vocabulary
from strop.retrieval.encoders import (
    GRUEncoder,
    PrecomputedCaptions,
    PrecomputedFeatures,
    SmallConvNet,
)
from strop.retrieval.encoders.build import build_captions, build_images, describe
from strop.retrieval.model import JointEmbedding
from strop.support import InputError

CAPTIONS = ["a red heart", "a dog", "", "a dog runs far"]


def gru() -> GRUEncoder:
    torch.manual_seed(0)
    vocabulary = Vocabulary.build(CAPTIONS, min_count=1)
    return GRUEncoder(vocabulary, word_dim=4, hidden_dim=6, dropout=0.5)


def test_known_and_new_captions_have_the_vector_of_the_encoder() -> None:
    encoder = gru()
    expected = F.normalize(encoder.eval()(encoder.tokens(CAPTIONS)), dim=1)
    table = PrecomputedCaptions(encoder).train()
    for known in ([], CAPTIONS[1:3], CAPTIONS):
        table.precompute(known, batch_size=2)
        assert torch.allclose(table(table.tokens(CAPTIONS)), expected, atol=1e-6)
        rows = torch.tensor([3, 0])
        assert torch.allclose(table(table.tokens(CAPTIONS)[rows]), expected[rows], atol=1e-6)


def test_what_is_in_the_table_is_not_computed_again() -> None:
    table = PrecomputedCaptions(gru())
    table.precompute(CAPTIONS)
    table.encoder.tokens = None  # it cannot encode any more
    table.precompute(CAPTIONS)
    assert table.tokens(CAPTIONS).shape == (4, 6)
    with pytest.raises(TypeError):
        table.tokens(["a cat"])


def test_nothing_in_it_learns() -> None:
    table = PrecomputedCaptions(gru()).train()
    assert not any(weight.requires_grad for weight in table.parameters())
    assert not table.encoder.training
    assert not table(table.tokens(CAPTIONS)).requires_grad


def test_vectors_from_elsewhere_need_no_encoder() -> None:
    table = PrecomputedCaptions(output_dim=2)
    table.add(["a", "b"], torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    assert torch.allclose(table(table.tokens(["b", "a"])), torch.tensor([[0.0, 0.0], [0.6, 0.8]]))
    with pytest.raises(InputError, match="no vector for the caption 'c', nor an encoder"):
        table.tokens(["a", "c"])
    with pytest.raises(InputError, match=r"shape \(1, 2\)"):
        table.add(["d"], torch.zeros(1, 3))
    with pytest.raises(InputError, match="NaN"):
        table.add(["d"], torch.full((1, 2), float("nan")))
    with pytest.raises(InputError, match="an encoder, or the output_dim"):
        PrecomputedCaptions()
    with pytest.raises(InputError, match="contradicts"):
        PrecomputedCaptions(gru(), output_dim=5)


@pytest.mark.parametrize("inner", [True, False])
def test_a_table_comes_back_from_its_description(inner: bool) -> None:
    table = (
        PrecomputedCaptions(gru(), dropout=0.25)
        if inner
        else PrecomputedCaptions(output_dim=3, dropout=0.25)
    )
    described = describe(table)
    again: Any = build_captions(json.loads(json.dumps(described)))
    again.load_state_dict(table.state_dict())
    assert describe(again) == described
    if inner:
        assert torch.equal(again.tokens(CAPTIONS), table.tokens(CAPTIONS))


@pytest.mark.parametrize(
    "encoder",
    [PrecomputedFeatures(widths=(2, 3), dropout=0.1), SmallConvNet(image_size=16, widths=(4, 6))],
)
def test_an_image_encoder_comes_back_from_its_description(encoder: Any) -> None:
    again: Any = build_images(json.loads(json.dumps(describe(encoder))))
    again.load_state_dict(encoder.state_dict())
    assert describe(again) == describe(encoder)
    inputs = (
        torch.rand(2, 5) if isinstance(encoder, PrecomputedFeatures) else torch.rand(2, 3, 16, 16)
    )
    assert torch.equal(again.eval()(inputs), encoder.eval()(inputs))


def test_the_features_of_each_network_have_unit_length() -> None:
    encoder = PrecomputedFeatures(widths=(2, 3)).eval()
    vectors = encoder(torch.rand(4, 5) * torch.tensor([1, 1, 1e3, 1e3, 1e3]))
    assert torch.allclose(vectors[:, :2].norm(dim=1), torch.ones(4))
    assert torch.allclose(vectors[:, 2:].norm(dim=1), torch.ones(4))
    assert not encoder(torch.zeros(1, 5)).any()
    with pytest.raises(InputError, match=r"\(batch, 5\)"):
        encoder(torch.rand(4, 6))


def test_byte_and_float_pictures_are_the_same_to_the_small_network() -> None:
    encoder = SmallConvNet(image_size=16, widths=(4, 6)).eval()
    pictures = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8)
    assert torch.equal(encoder(pictures), encoder(pictures.float()))
    with pytest.raises(InputError, match="colour pictures"):
        encoder(torch.rand(2, 1, 16, 16))
    with pytest.raises(InputError, match="no image encoder 'Clairvoyance'"):
        build_images({"type": "Clairvoyance"})


def test_without_projections_the_encoders_vectors_are_the_embeddings(tmp_path: Any) -> None:
    images, captions = PrecomputedFeatures(widths=(6,)), gru()
    model = JointEmbedding(images, captions, 6, project_images=False, project_captions=False)
    features, tokens = torch.rand(3, 6), captions.tokens(CAPTIONS)
    model.eval()
    assert torch.equal(model.embed_images(features), images(features))
    assert torch.equal(model.embed_captions(tokens), captions(tokens))
    assert not [name for name in model.state_dict() if "projection" in name]
    model.save_pretrained(tmp_path)
    again = JointEmbedding.from_pretrained(tmp_path)
    assert again.config() == model.config()
    assert torch.equal(again.embed_images(features), model.embed_images(features))
    with pytest.raises(InputError, match="leave project_images=True"):
        JointEmbedding(PrecomputedFeatures(widths=(5,)), captions, 6, project_images=False)
