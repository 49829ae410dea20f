"""The floor under every layer: errors meant for users, atomic files, optional imports, settings."""

from strop.support.errors import InputError, MissingExtraError, StropError
from strop.support.files import read_json, write_json, writing
from strop.support.optional import require
from strop.support.settings import settings_from_dict, settings_to_dict

__all__ = [
    "InputError",
    "MissingExtraError",
    "StropError",
    "read_json",
    "require",
    "settings_from_dict",
    "settings_to_dict",
    "write_json",
    "writing",
]
