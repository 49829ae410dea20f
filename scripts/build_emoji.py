"""Build the emoji set that travels with the package, from packages of pinned versions.

    python scripts/build_emoji.py [--into src/strop/data/emoji] [--packages FOLDER]

Needs npm and Pillow. Each package comes by name through ``npm pack`` (kept in ``--packages`` when
that is given, so that a second run needs no network). The same packages give the same files, byte
for byte, under one version of Pillow and zlib.
"""

import argparse
import gzip
import json
import random
import subprocess
import tarfile
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

DRAWINGS = {"noto": "emoji-datasource-google", "twemoji": "emoji-datasource-twitter"}
PACKAGES = {
    "emoji-datasource-google": "16.0.0",
    "emoji-datasource-twitter": "16.0.0",
    "cldr-annotations-full": "48.2.0",
    "cldr-annotations-derived-full": "48.2.0",
    "spdx-license-list": "6.12.0",
}
LANGUAGES = (
    *("ar", "de", "en", "es", "fr", "hi", "it", "ja"),
    *("ko", "pt", "ru", "sw", "th", "tr", "vi", "zh"),
)

PIXELS = 64  # side of a picture
COLUMNS = 6  # pictures side by side in a mosaic: an emoji and its five skin tones are one row
PER_MOSAIC = 96  # pictures that share one palette of 256 colours

HELD_OUT = 500  # emoji for test, and as many for validation, in every split
SEED = 20_260_101
# Two pictures closer than this, as a root mean square of 255 levels at 32 x 32, are twins: no
# model could tell which of the two a caption means, so neither is ever held out.
TWIN_DISTANCE = 2.5

TONES = {
    "1F3FB": "light",
    "1F3FC": "medium-light",
    "1F3FD": "medium",
    "1F3FE": "medium-dark",
    "1F3FF": "dark",
}
ADULTS = {"1F468": "man", "1F469": "woman", "1F9D1": "person"}
SIGNS = {"2640": "woman", "2642": "man"}
# Couples that are one code point: who they are, and the sequence they abbreviate.
COUPLES = {
    "1F46B": (("woman", "man"), "P-200D-1F91D-200D-P"),
    "1F46C": (("man", "man"), "P-200D-1F91D-200D-P"),
    "1F46D": (("woman", "woman"), "P-200D-1F91D-200D-P"),
    "1F48F": (("person", "person"), "P-200D-2764-200D-1F48B-200D-P"),
    "1F491": (("person", "person"), "P-200D-2764-200D-P"),
}


@dataclass
class Emoji:
    code: str
    base: str
    image: str
    group: str
    subgroup: str
    tones: tuple[str, ...]
    persons: tuple[str, ...]
    activity: str
    twin: bool = False
    splits: dict[str, str] = field(default_factory=dict)

    @property
    def character(self) -> str:
        return "".join(chr(int(point, 16)) for point in self.code.split("-"))


def fetch(package: str, folder: Path) -> Path:
    """The unpacked folder of a package at its pinned version."""
    version = PACKAGES[package]
    target = folder / f"{package}-{version}"
    if not target.exists():
        name = f"{package}@{version}"
        subprocess.run(["npm", "pack", name, "--silent"], cwd=folder, check=True)
        with tarfile.open(folder / f"{package}-{version}.tgz") as archive:
            archive.extractall(target, filter="data")
    return target / "package"


def split_person(base: str) -> tuple[tuple[str, ...], str]:
    """Who does it, and what: the persons named in a code, and the code with them left out."""
    points = [point for point in base.split("-") if point != "FE0F"]
    if points[0] in COUPLES and len(points) == 1:
        return COUPLES[points[0]]
    for at, point in enumerate(points):
        if point in SIGNS and at > 0 and points[at - 1] == "200D":
            return (SIGNS[point],), "-".join(points[: at - 1] + points[at + 1 :])
    persons = tuple(ADULTS[point] for point in points if point in ADULTS)
    return persons, "-".join("P" if point in ADULTS else point for point in points)


def read_emoji(folder: Path) -> list[Emoji]:
    """Every emoji drawn in both styles, in the order of Unicode, variations after their base."""
    records = json.loads((folder / "emoji.json").read_text(encoding="utf-8"))
    found = []
    for record in sorted(records, key=lambda record: record["sort_order"]):
        base = record["unified"]
        persons, activity = split_person(base)
        variations = [((), record), *sorted(record.get("skin_variations", {}).items())]
        for tones, drawn in variations:
            if not (drawn["has_img_google"] and drawn["has_img_twitter"]):
                continue
            named = tuple(TONES[tone] for tone in (tones.split("-") if tones else ()))
            if named and len(persons) == 2 and len(named) == 1:
                named *= 2
            found.append(
                Emoji(
                    drawn["unified"],
                    base,
                    drawn["image"],
                    record["category"],
                    record["subcategory"],
                    named,
                    persons,
                    activity,
                )
            )
    gendered = {emoji.activity for emoji in found if emoji.persons}
    for emoji in found:
        if not emoji.persons and emoji.activity in gendered:
            emoji.persons = ("person",)
    return found


def draw(emoji: list[Emoji], folder: Path) -> list[Image.Image]:
    """Mosaics of the pictures on white, each with a palette of its own."""
    mosaics = []
    for start in range(0, len(emoji), PER_MOSAIC):
        tiles = emoji[start : start + PER_MOSAIC]
        rows = -(-len(tiles) // COLUMNS)
        mosaic = Image.new("RGBA", (COLUMNS * PIXELS, rows * PIXELS), "white")
        for at, tile in enumerate(tiles):
            picture = Image.open(folder / tile.image).convert("RGBA")
            if picture.size != (PIXELS, PIXELS):
                raise SystemExit(f"{tile.image} is {picture.size}, not {PIXELS} x {PIXELS}")
            row, column = divmod(at, COLUMNS)
            mosaic.alpha_composite(picture, (column * PIXELS, row * PIXELS))
        flat = mosaic.convert("RGB")
        mosaics.append(flat.quantize(256, kmeans=3, dither=Image.Dither.NONE))
    return mosaics


def mark_twins(emoji: list[Emoji], mosaics: list[Image.Image]) -> None:
    """Mark every emoji whose picture, as stored, is as good as another's."""
    small = []
    for start, mosaic in zip(range(0, len(emoji), PER_MOSAIC), mosaics, strict=True):
        half = np.asarray(mosaic.convert("RGB").reduce(2), dtype=np.float64)
        side = PIXELS // 2
        for at in range(len(emoji[start : start + PER_MOSAIC])):
            row, column = divmod(at, COLUMNS)
            tile = half[row * side : (row + 1) * side, column * side : (column + 1) * side]
            small.append(tile.ravel())
    pictures = np.stack(small)
    norms = (pictures**2).sum(1)
    for at in range(len(emoji)):
        distance = norms + norms[at] - 2 * pictures @ pictures[at]
        distance[at] = np.inf
        if distance.min() < TWIN_DISTANCE**2 * pictures.shape[1]:
            emoji[at].twin = True


def split_compositional(emoji: list[Emoji], chooser: random.Random) -> None:
    """Hold out variations only; of every base at least two stay, and its toneless picture."""
    variations = defaultdict(list)
    for one in emoji:
        if one.tones and not one.twin:
            variations[one.base].append(one)
    turns: dict[str, list[Emoji]] = {"test": [], "validation": []}
    spare = []
    for at, (_, members) in enumerate(sorted(variations.items())):
        # Bases take turns at the tone they start from, so that every tone is held out alike.
        order = members[at % len(members) :] + members[: at % len(members)]
        if len(members) > 5:
            chooser.shuffle(order)
        share = max(1, len(members) // 3)
        turns["test"] += order[:share]
        turns["validation"] += order[share : 2 * share]
        if len(members) == 5:
            spare.append(order[2])
    chooser.shuffle(spare)
    for part in ("test", "validation"):
        short = HELD_OUT - len(turns[part])
        turns[part] += spare[:short]
        spare = spare[short:]
    assign(emoji, "compositional", turns)


def split_random(emoji: list[Emoji], chooser: random.Random) -> None:
    order = [one for one in emoji if not one.twin]
    chooser.shuffle(order)
    chosen = {"test": order[:HELD_OUT], "validation": order[HELD_OUT : 2 * HELD_OUT]}
    assign(emoji, "random", chosen)


def split_unseen(emoji: list[Emoji], chooser: random.Random) -> None:
    """Hold out whole activities, with every person and every skin tone they come in."""
    families = defaultdict(list)
    for one in emoji:
        families[one.activity].append(one)
    whole = [members for _, members in sorted(families.items()) if not any(m.twin for m in members)]
    chooser.shuffle(whole)
    chosen: dict[str, list[Emoji]] = {"test": [], "validation": []}
    for members in whole:
        for part in chosen.values():
            if len(part) + len(members) <= HELD_OUT:
                part += members
                break
    assign(emoji, "unseen", chosen)


def assign(emoji: list[Emoji], split: str, chosen: dict[str, list[Emoji]]) -> None:
    for one in emoji:
        one.splits[split] = "train"
    for part, members in chosen.items():
        if len(members) != HELD_OUT:
            raise SystemExit(f"{split} {part} has {len(members)} emoji, not {HELD_OUT}")
        for one in members:
            one.splits[split] = part


def annotations(emoji: list[Emoji], language: str, packages: Path) -> dict[str, list[object]]:
    """The short name and the keywords of every emoji in a language."""
    known: dict[str, dict[str, list[str]]] = {}
    for package, top in (
        ("cldr-annotations-derived-full", "annotationsDerived"),
        ("cldr-annotations-full", "annotations"),
    ):
        path = fetch(package, packages) / top / language / "annotations.json"
        known.update(json.loads(path.read_text(encoding="utf-8"))[top]["annotations"])
    entries = [known[one.character.replace("\ufe0f", "")] for one in emoji]
    return {
        "names": [entry["tts"][0] for entry in entries],
        "keywords": [entry["default"] for entry in entries],
    }


def write_table(emoji: list[Emoji], path: Path) -> None:
    splits = ("compositional", "random", "unseen")
    columns = ("code", "base", "tones", "persons", "activity", "group", "subgroup", *splits)
    lines = ["\t".join(columns)]
    for one in emoji:
        parts = [one.code, one.base, "+".join(one.tones), "+".join(one.persons), one.activity]
        parts += [one.group, one.subgroup, *(one.splits[split] for split in splits)]
        lines.append("\t".join(parts))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_licenses(packages: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    texts = fetch("spdx-license-list", packages) / "licenses"
    for name, license_id in (("Noto-Emoji", "Apache-2.0"), ("Twemoji", "CC-BY-4.0")):
        text = json.loads((texts / f"{license_id}.json").read_text(encoding="utf-8"))["licenseText"]
        (folder / f"{name}-{license_id}.txt").write_text(text.strip() + "\n", encoding="utf-8")
    for name, package in (
        ("CLDR-Unicode-3.0", "cldr-annotations-full"),
        ("emoji-data-MIT", "emoji-datasource-google"),
    ):
        text = (fetch(package, packages) / "LICENSE").read_text(encoding="utf-8")
        (folder / f"{name}.txt").write_text(text.strip() + "\n", encoding="utf-8")


def build(packages: Path, into: Path) -> None:
    emoji = read_emoji(fetch("emoji-datasource-google", packages))
    for drawing, package in DRAWINGS.items():
        pictures = fetch(package, packages) / "img" / package.rsplit("-", 1)[1] / str(PIXELS)
        mosaics = draw(emoji, pictures)
        mark_twins(emoji, mosaics)
        folder = into / drawing
        folder.mkdir(parents=True, exist_ok=True)
        for at, mosaic in enumerate(mosaics):
            mosaic.save(folder / f"{at:02d}.png", optimize=True)
    split_compositional(emoji, random.Random(SEED))
    split_random(emoji, random.Random(SEED + 1))
    split_unseen(emoji, random.Random(SEED + 2))
    write_table(emoji, into / "table.tsv")
    (into / "captions").mkdir(exist_ok=True)
    for language in LANGUAGES:
        text = json.dumps(annotations(emoji, language, packages), ensure_ascii=False)
        packed = gzip.compress(text.encode("utf-8"), 9, mtime=0)
        (into / "captions" / f"{language}.json.gz").write_bytes(packed)
    write_licenses(packages, into / "LICENSES")
    held_back = sum(one.twin for one in emoji)
    print(f"{len(emoji)} emoji, {held_back} of them twins, {len(LANGUAGES)} languages, in {into}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, default=Path("src/strop/data/emoji"))
    parser.add_argument("--packages", type=Path, help="a folder to keep the packages in")
    options = parser.parse_args()
    if options.packages is None:
        with tempfile.TemporaryDirectory() as folder:
            build(Path(folder), options.into)
    else:
        options.packages.mkdir(parents=True, exist_ok=True)
        build(options.packages, options.into)


if __name__ == "__main__":
    main()
