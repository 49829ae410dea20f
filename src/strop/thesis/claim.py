"""What a claim is: words, the items whose records speak to it, and how they decide."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from strop.thesis.calls import Record
from strop.thesis.verdicts import Verdict

Records = Mapping[str, list[Record]]
"""The records of items by id."""


@dataclass(frozen=True)
class Claim:
    """A claim of the thesis. ``decide`` gets the records of all items that it ``needs``."""

    id: str
    says: str
    needs: tuple[str, ...]
    decide: Callable[[Records], Verdict] | None
