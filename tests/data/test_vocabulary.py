"""Tokens and vocabulary: any script, training captions alone, what is saved is what is read."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.data import Vocabulary, load_emoji, tokenize
from strop.data.vocabulary import END, PAD, START, UNKNOWN
from strop.support import InputError


@pytest.mark.parametrize(
    ("caption", "tokens"),
    [
        ("A man's dog, running!", ["a", "man", "s", "dog", "running"]),
        ("l’homme d'affaires", ["l", "homme", "d", "affaires"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("Ещё ёж", ["ещё", "ёж"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("مُحَمَّد كِتاب", ["مُحَمَّد", "كِتاب"]),
        ("日本語のテスト2枚", ["日", "本", "語", "の", "テ", "ス", "ト", "2", "枚"]),
        ("ｶﾞラス", ["ガ", "ラ", "ス"]),
        ("น้ำตา", ["น\u0e49\u0e4d", "า", "ต", "า"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("می‌خواهم", ["میخواهم"]),
        ("I ❤ C++ at 5€", ["i", "❤", "c", "+", "+", "at", "5", "€"]),
        ("snake_case", ["snake", "case"]),
        ("12 ½", ["12", "1", "⁄", "2"]),
        ("コーヒー・ブレイク。", ["コ", "ー", "ヒ", "ー", "ブ", "レ", "イ", "ク"]),
        (" \t\n...", []),
    ],
)
def test_tokens_of_many_scripts(caption, tokens):
    assert tokenize(caption) == tokens


@given(st.text())
def test_composed_and_decomposed_forms_give_the_same_tokens(text):
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert tokenize(composed) == tokenize(decomposed)


@given(st.text())
def test_no_letter_digit_or_mark_on_a_letter_is_lost(text):
    spelled = "".join(tokenize(text))
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    assert [c for c in spelled if c.isalnum()] == [c for c in folded if c.isalnum()]


@given(st.lists(st.text(alphabet="abc ", max_size=8), max_size=6), st.integers(1, 4))
def test_vocabulary_holds_exactly_the_tokens_frequent_enough(captions, min_count):
    words = " ".join(captions).split()
    expected = {word for word in words if words.count(word) >= min_count}
    assert set(Vocabulary.build(captions, min_count=min_count).tokens[4:]) == expected


def test_order_of_captions_does_not_change_the_vocabulary():
    captions = ["b a", "a c", "c b d"]
    assert Vocabulary.build(captions, min_count=1) == Vocabulary.build(captions[::-1], min_count=1)


def test_encoding_marks_start_end_and_unknown_and_pads_behind():
    vocabulary = Vocabulary.build(["a dog"], min_count=1)
    numbers, lengths = vocabulary.encode_batch(["a cat", "", "a dog a"])
    assert numbers[0].tolist() == [START, vocabulary.tokens.index("a"), UNKNOWN, END, PAD]
    assert numbers[1].tolist() == [START, END, PAD, PAD, PAD]
    assert lengths.tolist() == [4, 2, 5]
    assert vocabulary.decode(numbers[2].tolist()) == ["a", "dog", "a"]
    assert vocabulary.encode_batch([])[0].shape == (0, 0)


def test_saved_vocabulary_is_read_back_equal(tmp_path):
    vocabulary = Vocabulary.build(["दाँत चेहरा", "女白领", 'a "quoted" dog'], min_count=1)
    vocabulary.save(tmp_path / "vocabulary.json")
    assert Vocabulary.load(tmp_path / "vocabulary.json") == vocabulary
    assert "女" in (tmp_path / "vocabulary.json").read_text(encoding="utf-8")


def test_another_json_file_is_no_vocabulary(tmp_path):
    (tmp_path / "other.json").write_text("[1, 2]")
    with pytest.raises(InputError, match=r"written by strop .* something else"):
        Vocabulary.load(tmp_path / "other.json")
    with pytest.raises(InputError, match="no such file"):
        Vocabulary.load(tmp_path / "missing.json")


def test_broken_vocabularies_are_refused():
    with pytest.raises(InputError, match="begin with <pad>"):
        Vocabulary(("a", "b"))
    with pytest.raises(InputError, match="'a' comes twice"):
        Vocabulary(("<pad>", "<start>", "<end>", "<unknown>", "a", "a"))
    with pytest.raises(InputError, match="put it in a list"):
        Vocabulary.build("a dog")


def test_words_of_the_compositional_test_are_known_from_training():
    train = load_emoji(part="train", size=1)
    test = load_emoji(part="test", size=1)
    vocabulary = Vocabulary.build(train.captions, min_count=1)
    assert not any(UNKNOWN in vocabulary.encode(caption) for caption in test.captions)
