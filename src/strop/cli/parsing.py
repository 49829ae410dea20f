"""A command's dataclass from its words, with defaults from ``--preset`` and ``--config``."""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import tyro

from strop.support import read_json, settings_from_dict

READING = "reading.json"


def parse(command: type[Callable[[], None]], *, prog: str, words: list[str]) -> Callable[[], None]:
    """The command ready to run.

    ``--preset NAME`` replaces the defaults of ``settings`` by those that ``presets()`` of the
    command gives; ``--config FILE`` takes them from the settings file of an earlier run; options
    on the line win over both. Options of nested settings go without the name of the nest, unless
    the command says that it is ``PREFIXED``, because two of them share a name.
    """
    return tyro.cli(
        command,
        prog=prog,
        args=words,
        default=_defaults(command, words),
        config=() if getattr(command, "PREFIXED", False) else (tyro.conf.OmitArgPrefixes,),
    )


def _defaults(command: type[Any], words: list[str]) -> Any:
    names = {field.name for field in fields(command)}
    if "settings" not in names:
        return None
    config = _value_of("--config", words) if "config" in names else None
    preset = _value_of("--preset", words) if "preset" in names else None
    if config is None and preset is None:
        return None
    changed: dict[str, Any] = {}
    if preset is not None:
        presets: dict[str, Any] = command.presets()
        if preset not in presets:
            return None  # the parser itself names the choices
        changed["settings"] = presets[preset]
    if config is not None:
        changed |= _settings_of_run(command, Path(config))
    values = {field.name: _default_of(field) for field in fields(command)}
    return command(**(values | changed))


def _default_of(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return tyro.MISSING if field.default_factory is MISSING else field.default_factory()


def _settings_of_run(command: type[Any], path: Path) -> dict[str, Any]:
    """What an earlier run was set to, from its settings file or its folder.

    A command that reads data has a field ``reading``, and keeps it in a file beside the settings.
    """
    from strop.training import load_settings

    kinds = {field.name: field.type for field in fields(command)}
    found: dict[str, Any] = {"settings": load_settings(path, kinds["settings"])}  # type: ignore[arg-type]
    beside = (path if path.is_dir() else path.parent) / READING
    if "reading" in kinds and beside.exists():
        found["reading"] = settings_from_dict(
            kinds["reading"],  # type: ignore[arg-type]
            read_json(beside, what="record of how data were read")["reading"],
            source=str(beside),
        )
    return found


def _value_of(option: str, words: list[str]) -> str | None:
    for position, word in enumerate(words):
        if word == option and position + 1 < len(words):
            return words[position + 1]
        if word.startswith(f"{option}="):
            return word.split("=", 1)[1]
    return None
