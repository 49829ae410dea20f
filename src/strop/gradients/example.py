"""A small example to try things on: emoji by group, some of them under a wrong heading."""

import torch

from strop.data import Emoji, LabelledImages, corrupt_labels, emoji_table, load_emoji

GROUPS = (
    "Smileys & Emotion",
    "People & Body",
    "Animals & Nature",
    "Food & Drink",
    "Flags",
)


def emoji_groups(
    *, generator: torch.Generator, size: int = 32, wrong: float = 0.05
) -> LabelledImages:
    """Emoji of five Unicode groups in two drawings, the group as the label, some labels wrong.

    Variations by skin tone are left out. ``data.corrupted`` tells which labels were planted.

    >>> data = emoji_groups(generator=torch.Generator(), size=8)
    >>> len(data), int(data.corrupted.sum()), data.class_names[4]
    (2230, 112, 'Flags')
    """
    emoji = load_emoji(part="all", size=size)
    plain = {one.code for one in _plain()}
    rows = [row for row, code in enumerate(emoji.fields["concept"]) if code in plain]
    labels = torch.tensor([GROUPS.index(emoji.fields["group"][row]) for row in rows])
    data = LabelledImages.from_tensors(
        emoji.images.batch(torch.tensor(rows)),
        labels,
        class_names=GROUPS,
        record={"step": "emoji groups", "size": size},
    )
    return corrupt_labels(data, share=wrong, generator=generator)


def emoji_characters() -> tuple[str, ...]:
    """The emoji of each row of :func:`emoji_groups`, as text: both drawings, one after the other.

    >>> emoji_characters()[0], len(emoji_characters())
    ('😀', 2230)
    """
    return 2 * tuple(one.character for one in _plain())


def _plain() -> list[Emoji]:
    return [one for one in emoji_table() if not one.tones and one.group in GROUPS]
