"""Frozen dataclasses of settings to plain JSON values and back."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from strop.support.errors import InputError

T = TypeVar("T")


def settings_to_dict(settings: Any) -> dict[str, Any]:
    """A settings dataclass as plain JSON values, nested ones included.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Settings:
    ...     out: Path
    ...     seeds: tuple[int, ...] = (0, 1)
    >>> settings_to_dict(Settings(out=Path("runs/a")))
    {'out': 'runs/a', 'seeds': [0, 1]}
    """
    return {field.name: _plain(getattr(settings, field.name)) for field in fields(settings)}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return settings_to_dict(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Path):
        return value.as_posix()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a setting of type {type(value).__name__} has no JSON form: {value!r}")


def settings_from_dict(cls: type[T], values: Mapping[str, Any], *, source: str = "settings") -> T:
    """The dataclass ``cls`` from plain JSON values; ``source`` names the file in errors.

    Fields that are absent take their defaults; an unknown field is an error, not silence.
    """
    hints = get_type_hints(cls)
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise InputError(
            f"{source} has the unknown field {unknown[0]!r}; "
            f"{cls.__name__} knows {', '.join(known)}"
        )
    missing = [
        name
        for name, field in known.items()
        if name not in values and field.default is MISSING and field.default_factory is MISSING
    ]
    if missing:
        raise InputError(f"{source} lacks the field {missing[0]!r} of {cls.__name__}")
    arguments = {
        name: _typed(hints[name], value, f"{source}: {name}") for name, value in values.items()
    }
    return cls(**arguments)


def _typed(hint: Any, value: Any, where: str) -> Any:
    origin = get_origin(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _first_that_fits(get_args(hint), value, where)
    if origin is Literal:
        if value not in get_args(hint):
            raise InputError(f"{where} must be one of {get_args(hint)}, but is {value!r}")
        return value
    if origin in (tuple, list) and isinstance(value, list):
        return _sequence(origin, get_args(hint), value, where)
    if origin is dict and isinstance(value, dict):
        return {key: _typed(get_args(hint)[1], item, where) for key, item in value.items()}
    if isinstance(hint, type):
        return _instance(hint, value, where)
    raise InputError(f"{where} expects {hint}, but is {value!r}")


def _first_that_fits(hints: tuple[Any, ...], value: Any, where: str) -> Any:
    for hint in hints:
        try:
            return _typed(hint, value, where)
        except InputError:
            continue
    raise InputError(f"{where} fits none of {hints}: {value!r}")


def _sequence(origin: Any, hints: tuple[Any, ...], value: list[Any], where: str) -> Any:
    if origin is tuple and not (len(hints) == 2 and hints[1] is Ellipsis):
        if len(hints) != len(value):
            raise InputError(f"{where} expects {len(hints)} values, but has {len(value)}")
        return tuple(_typed(hint, item, where) for hint, item in zip(hints, value, strict=True))
    return origin(_typed(hints[0], item, where) for item in value)


def _instance(hint: type, value: Any, where: str) -> Any:
    if is_dataclass(hint) and isinstance(value, dict):
        return settings_from_dict(hint, value, source=where)
    if issubclass(hint, Enum) and isinstance(value, str) and value in hint.__members__:
        return hint[value]
    if issubclass(hint, Path) and isinstance(value, str):
        return Path(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, hint) and not (hint in (int, float) and isinstance(value, bool)):
        return value
    raise InputError(f"{where} expects {hint.__name__}, but is {value!r}")
