"""A command's dataclass from its words, with defaults from ``--preset`` and ``--config``."""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import tyro

from strop.support import InputError, read_json, settings_from_dict


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
        changed["settings"] = _settings_of_run(command, Path(config))
    values = {field.name: _default_of(field) for field in fields(command)}
    return command(**(values | changed))


def _default_of(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return tyro.MISSING if field.default_factory is MISSING else field.default_factory()


def _settings_of_run(command: type[Any], path: Path) -> Any:
    """The settings stored by an earlier run: a settings file, or the run's folder that holds it."""
    path = path / "settings.json" if path.is_dir() else path
    stored = read_json(path, what="settings file")
    if not isinstance(stored, dict) or not isinstance(stored.get("settings"), dict):
        raise InputError(f"expected {path} to hold a run's settings under the key 'settings'")
    kind = {field.name: field.type for field in fields(command)}["settings"]
    if not isinstance(kind, type):
        raise TypeError(f"{command.__name__}.settings must be annotated with a class, not {kind!r}")
    return settings_from_dict(kind, stored["settings"], source=str(path))


def _value_of(option: str, words: list[str]) -> str | None:
    for position, word in enumerate(words):
        if word == option and position + 1 < len(words):
            return words[position + 1]
        if word.startswith(f"{option}="):
            return word.split("=", 1)[1]
    return None
