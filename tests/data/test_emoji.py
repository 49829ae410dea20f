"""The emoji set: what is promised of its splits, galleries, pictures and captions."""

import itertools
from collections import Counter

import pytest
import torch

from strop.data.emoji import LANGUAGES, emoji_table, load_emoji
from strop.support import InputError

SPLITS = ("compositional", "random", "unseen", "cross-drawing")
STORED = ("compositional", "random", "unseen")
HELD_OUT = ("validation", "test")


def of_part(split, part):
    return [emoji for emoji in emoji_table() if getattr(emoji, split) == part]


@pytest.mark.parametrize("split", STORED)
def test_every_stored_split_holds_out_500_and_500(split):
    parts = Counter(getattr(emoji, split) for emoji in emoji_table())
    assert parts == {"train": 2786, "validation": 500, "test": 500}


def test_compositional_split_holds_out_only_wholes_whose_parts_are_seen_in_training():
    train = of_part("compositional", "train")
    bases = {emoji.code for emoji in train}
    tones_of_persons = {
        (emoji.persons, tone) for emoji in train for tone in emoji.tones if emoji.tones
    }
    activities_of_persons = {(emoji.persons, emoji.activity) for emoji in train}
    varied = Counter(emoji.base for emoji in train if emoji.tones)
    for part in HELD_OUT:
        for emoji in of_part("compositional", part):
            assert emoji.tones, f"{emoji.code} is no variation"
            assert emoji.base in bases
            assert (emoji.persons, emoji.activity) in activities_of_persons
            assert all((emoji.persons, tone) in tones_of_persons for tone in emoji.tones)
            assert varied[emoji.base] >= 2, "a base must stay in training with two tones at least"


def test_unseen_split_shares_no_activity_between_parts():
    activities = [
        {emoji.activity for emoji in of_part("unseen", part)}
        for part in ("train", "validation", "test")
    ]
    for left, right in itertools.combinations(activities, 2):
        assert not left & right


def test_variations_are_parted_into_base_person_and_activity():
    table = {emoji.code: emoji for emoji in emoji_table()}
    cook = table["1F469-1F3FD-200D-1F373"]
    assert (cook.base, cook.tones, cook.persons) == ("1F469-200D-1F373", ("medium",), ("woman",))
    assert cook.activity == table["1F468-200D-1F373"].activity == "P-200D-1F373"
    runner = table["1F3C3"]
    running_man = table["1F3C3-1F3FF-200D-2642-FE0F"]
    assert (runner.persons, running_man.persons) == (("person",), ("man",))
    assert runner.activity == running_man.activity
    couple = table["1F469-1F3FB-200D-1F91D-200D-1F468-1F3FF"]
    assert (couple.persons, couple.tones) == (("woman", "man"), ("light", "dark"))
    assert all(emoji.base in table for emoji in table.values())


@pytest.mark.parametrize("size", [32, 64])
@pytest.mark.parametrize("part", HELD_OUT)
@pytest.mark.parametrize("split", SPLITS)
def test_galleries_tell_every_picture_and_every_name_apart(split, part, size):
    gallery = load_emoji(split=split, part=part, size=size)
    assert len(gallery.images) == len(gallery.captions) == 500
    assert len(set(gallery.captions)) == 500
    assert set(gallery.fields["drawing"]) == {"twemoji" if split == "cross-drawing" else "noto"}
    pictures = gallery.images.batch(range(500)).flatten(1).double()
    distances = torch.cdist(pictures, pictures) + torch.eye(500) * 1e9
    assert float(distances.min()) / pictures.shape[1] ** 0.5 >= 2.5


@pytest.mark.parametrize("split", STORED)
def test_nothing_of_training_is_held_out(split):
    codes = [
        set(load_emoji(split=split, part=part, size=1).fields["concept"])
        for part in ("train", "validation", "test")
    ]
    assert sum(map(len, codes)) == len(set.union(*codes)) == 3786


def test_cross_drawing_trains_on_noto_and_tests_on_twemoji():
    train = load_emoji(split="cross-drawing", part="train", size=1)
    test = load_emoji(split="cross-drawing", part="test", size=1)
    assert set(train.fields["drawing"]) == {"noto"}
    assert len(train.images) == 3786
    assert set(test.fields["drawing"]) == {"twemoji"}
    assert set(test.captions) <= set(train.captions)
    with pytest.raises(InputError, match="leave drawings out"):
        load_emoji(split="cross-drawing", part="test", drawings=("noto",))


def test_pictures_and_captions_belong_together():
    everything = load_emoji(part="all", drawings=("noto",))
    at = {name: number for number, name in enumerate(everything.names)}
    red = everything.images[at["noto/1F7E5"]].float()
    blue = everything.images[at["noto/1F7E6"]].float()
    assert everything.captions_of(at["noto/1F7E5"]) == ("red square",)
    assert everything.captions_of(at["noto/1F7E6"]) == ("blue square",)
    assert red[0].mean() > 1.5 * red[2].mean()
    assert blue[2].mean() > 1.5 * blue[0].mean()
    assert everything.fields["character"][at["noto/1F7E5"]] == "🟥"
    last = everything.images[at["noto/1F3F4-E0067-E0062-E0077-E006C-E0073-E007F"]].float()
    assert everything.captions[-1] == "flag: Wales"
    assert float((last[1] - last[0]).max()) > 50, "the flag of Wales has a green half"


def test_small_pictures_are_averages_of_the_stored_ones():
    stored = load_emoji(split="random", part="test").images.batch(range(500)).float()
    small = load_emoji(split="random", part="test", size=32).images.batch(range(500)).float()
    averaged = torch.nn.functional.avg_pool2d(stored, 2)
    assert float((small - averaged).abs().max()) <= 1


def test_every_emoji_has_a_name_of_its_own_and_keywords_in_every_language():
    data = load_emoji(
        part="all", drawings=("noto",), size=1, languages=LANGUAGES, captions="names+keywords"
    )
    assert all(caption.strip() for caption in data.captions)
    for at, language in enumerate(LANGUAGES):
        names = data.captions[2 * at :: 2 * len(LANGUAGES)]
        assert len(set(names)) == len(names) == 3786, language


def test_captions_come_by_language_and_kind():
    common = {"part": "test", "size": 1, "languages": ("en", "de")}
    both = load_emoji(**common, captions="names+keywords")
    names = load_emoji(**common, captions="names")
    keywords = load_emoji(**common, captions="keywords")
    assert both.captions_of(7) == tuple(
        text
        for pair in zip(names.captions_of(7), keywords.captions_of(7), strict=True)
        for text in pair
    )
    assert len(both.captions) == 4 * 500


def test_groups_are_labels():
    labels, classes = load_emoji(part="all", size=1).labels("group")
    assert len(classes) == 10
    assert "Smileys & Emotion" in classes
    assert int(torch.bincount(labels).sum()) == 2 * 3786


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"split": "alphabetical"}, "compositional, random"),
        ({"part": "dev"}, "train, validation, test"),
        ({"languages": ("tlh",)}, "languages .* 'tlh'"),
        ({"languages": ()}, "at least one language"),
        ({"captions": "poems"}, "names, keywords"),
        ({"drawings": ("apple",)}, "noto, twemoji"),
        ({"drawings": ("noto", "noto")}, "each drawing once"),
        ({"size": 128}, "1 to 64 pixels"),
    ],
)
def test_wrong_choices_are_refused_with_the_right_ones(wrong, message):
    with pytest.raises(InputError, match=message):
        load_emoji(**wrong)
