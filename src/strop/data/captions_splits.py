"""Split lists: text files that name the images of a part, one on each line."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from strop.data.captions_assemble import (
    NoSuchSplitError,
    PathLike,
    part_name,
    part_named_in,
    part_names,
    read_text,
)
from strop.support import InputError


def find_split_lists(folder: Path, *, names: Mapping[str, object]) -> dict[str, Path]:
    """Text files in ``folder`` whose name speaks of a part and whose first line is an image."""
    found = {}
    for path in sorted(folder.glob("*.txt")):
        part = part_named_in(path.name)
        if part is not None and part not in found:
            with path.open(encoding="utf-8", errors="replace") as file:
                if file.readline().strip() in names:
                    found[part] = path
    return found


def choose_split(
    captions: Mapping[str, Sequence[str]],
    split: str,
    *,
    near: Path,
    lists: Mapping[str, PathLike] | None = None,
) -> dict[str, list[str]]:
    """The images of a part, in the order of its list.

    ``lists`` names the files, ``{"train": "Flickr_8k.trainImages.txt"}``; without it they are
    looked for beside the captions. A listed image without a caption stays, without one.
    """
    if lists is None:
        files: dict[str, Path] = find_split_lists(near.parent, names=captions)
    else:
        files = {part_name(part): Path(path) for part, path in lists.items()}
    wanted = part_names(split)
    if not wanted <= set(files):
        known = ", ".join(sorted(files)) or "none"
        raise NoSuchSplitError(
            f"expected the split {split!r} of {near}, but the split lists beside it are: {known}; "
            f"name them with split_lists={{'train': ...}}, or read all with split=None"
        )
    chosen: dict[str, list[str]] = {}
    for part in sorted(wanted):
        for line in read_text(files[part], what="split list").splitlines():
            if line.strip():
                chosen[line.strip()] = list(captions.get(line.strip(), ()))
    if not any(name in captions for name in chosen):
        listed = ", ".join(str(files[part]) for part in sorted(wanted))
        raise InputError(
            f"expected images of {near} in the split list {listed}, but none of them has a caption "
            f"there; check that the two belong together"
        )
    return chosen
