"""The GRU and the bag of words, against one caption at a time."""

import json
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from strop.data import Vocabulary
from strop.retrieval.encoders import BagOfWords, GRUEncoder
from strop.retrieval.encoders.build import build_captions, describe
from strop.support import InputError

VOCABULARY = Vocabulary.build(["one two three four five six seven eight"], min_count=1)
WORDS = [*VOCABULARY.tokens[4:], "unheard"]
captions = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join), min_size=1, max_size=6
)


def gru(**arguments: Any) -> GRUEncoder:
    torch.manual_seed(0)
    return GRUEncoder(VOCABULARY, word_dim=5, hidden_dim=7, **arguments).double().eval()


def one_at_a_time(encoder: GRUEncoder, caption: str) -> Tensor:
    """Written out step by step: gates, states, pooling; no batch, no packing."""
    words = encoder.words.weight[torch.tensor(VOCABULARY.encode(caption))]
    ways = []
    for suffix in ("", "_reverse") if encoder.gru.bidirectional else ("",):
        weight_in, weight_state, bias_in, bias_state = (
            getattr(encoder.gru, f"{name}_l0{suffix}")
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        state = torch.zeros(encoder.output_dim, dtype=words.dtype)
        states = []
        for word in words.flip(0) if suffix else words:
            read, update, new = (weight_in @ word + bias_in).chunk(3)
            read_state, update_state, new_state = (weight_state @ state + bias_state).chunk(3)
            reset, keep = (read + read_state).sigmoid(), (update + update_state).sigmoid()
            state = (1 - keep) * (new + reset * new_state).tanh() + keep * state
            states.append(state)
        ways.append(torch.stack(states))
    if encoder.pool == "last":
        return torch.stack([way[-1] for way in ways]).mean(dim=0)
    backwards_in_order = [ways[0], *(way.flip(0) for way in ways[1:])]
    both = torch.stack(backwards_in_order).mean(dim=0)
    return both.mean(dim=0) if encoder.pool == "mean" else both.amax(dim=0)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("pool", ["last", "mean", "max"])
@given(captions=captions)
def test_gru_in_a_batch_is_gru_of_each_caption(
    pool: str, bidirectional: bool, captions: list[str]
) -> None:
    encoder = gru(pool=pool, bidirectional=bidirectional)
    expected = torch.stack([one_at_a_time(encoder, caption) for caption in captions])
    assert torch.allclose(encoder(encoder.tokens(captions)), expected)


@given(captions=captions)
def test_bag_of_words_is_the_mean_of_its_words(captions: list[str]) -> None:
    torch.manual_seed(0)
    encoder = BagOfWords(VOCABULARY, word_dim=5).double()
    means = torch.stack(
        [encoder.words.weight[torch.tensor(VOCABULARY.encode(c))].mean(dim=0) for c in captions]
    )
    expected = means + (means @ encoder.layer[0].weight.T + encoder.layer[0].bias).clamp(min=0)
    assert torch.allclose(encoder(encoder.tokens(captions)), expected)


@pytest.mark.parametrize("encoder", [gru(), BagOfWords(VOCABULARY, word_dim=5)])
def test_an_empty_caption_has_a_vector(encoder: Any) -> None:
    vectors = encoder(encoder.tokens(["", "one"]))
    assert vectors.isfinite().all()
    assert torch.allclose(vectors[:1], encoder(encoder.tokens([""])))


def test_rows_of_tokens_are_tokens_of_rows() -> None:
    encoder = gru()
    many = ["one two three", "four", "", "five six"]
    rows = torch.tensor([3, 1])
    taken = encoder.tokens(many)[rows]
    again = encoder.tokens([many[3], many[1]])
    assert torch.equal(taken.ids, again.ids)
    assert torch.equal(taken.lengths, again.lengths)
    assert len(taken) == 2


def test_padding_learns_nothing() -> None:
    encoder = gru(pool="max").train()
    encoder(encoder.tokens(["one", "one two three four"])).sum().backward()
    gradient = encoder.words.weight.grad
    assert gradient is not None
    assert not gradient[VOCABULARY.pad].any()
    assert not encoder.words.weight[VOCABULARY.pad].any()


def test_words_start_where_they_are_told() -> None:
    vectors = torch.randn(len(VOCABULARY), 11)
    vectors[VOCABULARY.pad] = 0
    for encoder in (
        GRUEncoder(VOCABULARY, hidden_dim=4, word_vectors=vectors),
        BagOfWords(VOCABULARY, word_vectors=vectors),
    ):
        assert torch.equal(encoder.words.weight, vectors)
        assert encoder.config()["word_dim"] == 11
    untold = GRUEncoder(VOCABULARY, word_dim=300, hidden_dim=4).words.weight.detach()[1:]
    assert untold.abs().max() <= 0.1
    assert untold.std() == pytest.approx(0.2 / 12**0.5, rel=0.1)
    with pytest.raises(InputError, match=rf"\({len(VOCABULARY)}, dimensions\)"):
        GRUEncoder(VOCABULARY, word_vectors=vectors[1:])


def test_an_unknown_pool_is_refused() -> None:
    with pytest.raises(InputError, match="'last', 'mean' or 'max'"):
        gru(pool="median")


@pytest.mark.parametrize(
    "encoder",
    [
        GRUEncoder(
            VOCABULARY, word_dim=3, hidden_dim=4, bidirectional=True, pool="max", dropout=0.5
        ),
        BagOfWords(VOCABULARY, word_dim=3, dropout=0.25),
    ],
)
def test_an_encoder_comes_back_from_its_description(encoder: Any) -> None:
    again: Any = build_captions(json.loads(json.dumps(describe(encoder))))
    again.load_state_dict(encoder.state_dict())
    assert describe(again) == describe(encoder)
    tokens = encoder.tokens(["one two", "unheard"])
    assert torch.equal(again.eval()(again.tokens(["one two", "unheard"])), encoder.eval()(tokens))


def test_an_unknown_description_is_refused() -> None:
    with pytest.raises(InputError, match="no caption encoder 'Telepathy'"):
        build_captions({"type": "Telepathy"})
