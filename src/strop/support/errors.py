"""Errors whose message is for the user: what was expected, what came, and the remedy."""


class StropError(Exception):
    """Something the user can mend; the command line prints its message as one plain sentence."""


class InputError(StropError, ValueError):
    """A file, an argument or a batch that is not what was asked for."""


class MissingExtraError(StropError, ImportError):
    """An optional library is not installed."""
