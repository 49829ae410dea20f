"""Words to numbers: tokens of any script, and a vocabulary of the training captions alone."""

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from strop.support import InputError, read_json, write_json

SPECIAL = ("<pad>", "<start>", "<end>", "<unknown>")
PAD, START, END, UNKNOWN = range(4)

# Scripts written without spaces between words, where a character is the token.
_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3021-\u3029\u3038-\u303b"  # ideographic iteration marks and numerals
    "\u3040-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"  # Kana supplements, rarer Han
)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What a token is, and what is left out before looking for tokens."""
    marks, symbols, invisible = [], [], []
    for point in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(point))
        if category[0] == "M":
            marks.append(point)
        elif category in ("So", "Sc", "Sm"):
            symbols.append(point)
        elif category == "Cf":
            invisible.append(point)
    mark = f"[{_ranges(marks)}]"
    token = f"(?=\\w)[{_UNSPACED}]{mark}*|(?:(?![{_UNSPACED}_])\\w{mark}*)+|[{_ranges(symbols)}]"
    return re.compile(token), re.compile(f"[{_ranges(invisible)}]")


def _ranges(points: list[int]) -> str:
    """Code points in rising order as the inside of a character class."""
    runs: list[list[int]] = []
    for point in points:
        if runs and point == runs[-1][1] + 1:
            runs[-1][1] = point
        else:
            runs.append([point, point])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in runs)


def tokenize(caption: str) -> list[str]:
    """The tokens of a caption in any language.

    Compatible forms are made one (NFKC) and case is folded. A token is a run of letters, digits
    and the marks that belong to them; a single character in scripts written without spaces
    (Chinese, Japanese, Thai, Lao, Khmer, Burmese); or a symbol. Punctuation parts tokens and is
    dropped: *l'homme* is two, *medium-light* is two.

    >>> tokenize("Woman cook: medium-light skin tone")
    ['woman', 'cook', 'medium', 'light', 'skin', 'tone']
    >>> tokenize("दाँत दिखाता चेहरा"), tokenize("女白领: 较浅肤色")
    (['दाँत', 'दिखाता', 'चेहरा'], ['女', '白', '领', '较', '浅', '肤', '色'])
    """
    token, invisible = _patterns()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", caption).casefold())
    return token.findall(invisible.sub("", folded))


@dataclass(frozen=True)
class Vocabulary:
    """Tokens and their numbers; 0 to 3 are padding, start, end and unknown.

    Build it from training captions only: the vocabulary of the published code held words of the
    test captions, so that it knew more than a new caption's words can be known.

    >>> vocabulary = Vocabulary.build(["a dog", "a cat", "a dog runs"], min_count=2)
    >>> vocabulary.tokens
    ('<pad>', '<start>', '<end>', '<unknown>', 'a', 'dog')
    >>> vocabulary.encode("A bird")
    [1, 4, 3, 2]
    """

    tokens: tuple[str, ...]
    min_count: int = 1

    def __post_init__(self) -> None:
        if self.tokens[: len(SPECIAL)] != SPECIAL:
            raise InputError(
                f"expected a vocabulary to begin with {', '.join(SPECIAL)}, but it begins with "
                f"{', '.join(self.tokens[: len(SPECIAL)]) or 'nothing'}; build it with "
                f"Vocabulary.build"
            )
        if len(self._number) != len(self.tokens):
            twice = Counter(self.tokens).most_common(1)[0][0]
            raise InputError(f"expected every token once, but {twice!r} comes twice")

    @classmethod
    def build(cls, captions: Iterable[str], *, min_count: int = 4) -> "Vocabulary":
        """Every token that comes at least ``min_count`` times, the most frequent first."""
        if isinstance(captions, str):
            raise InputError("expected a list of captions, but came one text; put it in a list")
        counts = Counter(token for caption in captions for token in tokenize(caption))
        kept = [token for token, count in counts.items() if count >= min_count]
        kept.sort(key=lambda token: (-counts[token], token))
        return cls(tokens=(*SPECIAL, *kept), min_count=min_count)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {token: at for at, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._number

    def encode(self, caption: str) -> list[int]:
        """The numbers of start, each token, end."""
        number = self._number
        return [START, *(number.get(token, UNKNOWN) for token in tokenize(caption)), END]

    def encode_batch(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Long (B, L), padded to the longest, and the lengths, long (B,).

        >>> Vocabulary.build(["a dog"], min_count=1).encode_batch(["a", "a dog"])
        (tensor([[1, 4, 2, 0], [1, 4, 5, 2]]), tensor([3, 4]))
        """
        rows = [self.encode(caption) for caption in captions]
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
        longest = max(map(len, rows), default=0)
        padded = [row + [PAD] * (longest - len(row)) for row in rows]
        return torch.tensor(padded, dtype=torch.long).view(len(rows), longest), lengths

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """The tokens of encoded numbers, without padding, start and end."""
        return [self.tokens[at] for at in numbers if at not in (PAD, START, END)]

    @property
    def pad(self) -> int:
        """The number that fills short captions up."""
        return PAD

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        words = list(self.tokens[len(SPECIAL) :])
        return {"format": _FORMAT, "min_count": self.min_count, "tokens": words}

    @classmethod
    def from_dict(cls, stored: Any, *, source: str = "the configuration") -> "Vocabulary":
        """What :meth:`to_dict` gave; ``source`` names the file in an error."""
        if not isinstance(stored, dict) or stored.get("format") != _FORMAT:
            raise InputError(
                f"expected a vocabulary written by strop ({_FORMAT!r}) in {source}, but it holds "
                f"something else; build the vocabulary again from training captions"
            )
        return cls(tokens=(*SPECIAL, *stored["tokens"]), min_count=stored["min_count"])

    def save(self, path: str | PathLike[str]) -> None:
        """Write it as JSON."""
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Vocabulary":
        """Read what :meth:`save` wrote."""
        return cls.from_dict(read_json(path, what="vocabulary"), source=str(path))


_FORMAT = "strop vocabulary 1"
