"""From ``sys.argv`` to a command, and from an exception to an exit code.

Exit codes: 0 done, 1 failed (one plain sentence; the traceback behind ``--debug``), 2 usage.
"""

import errno
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from strop.cli.commands import COMMANDS, Command, Group
from strop.support import StropError
from strop.version import __version__

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        return _dispatch(words)
    except KeyboardInterrupt as interrupt:
        print(f"strop: {interrupt or 'interrupted'}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        return 1
    except Exception as error:
        if debug:
            raise
        print(f"strop: {_sentence(error)}", file=sys.stderr)
        return 1


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        _print_overview("strop", "Sharper training for PyTorch.", COMMANDS)
        return 0
    if words[0] == "--version":
        print(f"strop {__version__}")
        return 0
    entry = COMMANDS.get(words[0])
    if entry is None:
        return _unknown("strop", words[0], COMMANDS)
    if isinstance(entry, Command):
        return _run(entry, prog=f"strop {words[0]}", words=words[1:])
    prog = f"strop {words[0]}"
    if len(words) == 1 or words[1] in ("-h", "--help", "help"):
        _print_overview(prog, entry.summary, entry.commands)
        return 0
    command = entry.commands.get(words[1])
    if command is None:
        return _unknown(prog, words[1], entry.commands)
    return _run(command, prog=f"{prog} {words[1]}", words=words[2:])


def _run(command: Command, *, prog: str, words: list[str]) -> int:
    from strop.cli.parsing import parse

    module, name = command.target.split(":")
    try:
        parsed = parse(getattr(import_module(module), name), prog=prog, words=words)
    except SystemExit as stop:  # the parser has printed its help, or what is wrong with the words
        return stop.code if isinstance(stop.code, int) else 2
    parsed()
    return 0


def _print_overview(prog: str, summary: str, commands: Mapping[str, Command | Group]) -> None:
    width = max(map(len, commands), default=0)
    print(f"usage: {prog} COMMAND [OPTIONS]\n\n{summary}\n\ncommands:")
    for name, entry in commands.items():
        print(f"  {name:<{width}}  {entry.summary}")
    print(f"\n`{prog} COMMAND --help` tells more; `--debug` shows the traceback of a failure.")


def _unknown(prog: str, word: str, commands: Mapping[str, Any]) -> int:
    print(
        f"strop: expected one of {', '.join(commands)} after `{prog}`, but got {word!r}",
        file=sys.stderr,
    )
    return 2


def _sentence(error: Exception) -> str:
    """What went wrong, in one line that a user can act on."""
    if isinstance(error, StropError):
        return " ".join(str(error).split())
    if isinstance(error, OSError):
        if error.errno == errno.ENOSPC:
            return f"the disk is full: {error.filename or 'a file'} could not be written"
        return f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
    if isinstance(error, MemoryError):
        return "out of memory: a smaller --batch-size needs less"
    first_line = (str(error).splitlines() or ["no message"])[0]
    return f"{type(error).__name__}: {first_line} (run again with --debug for the traceback)"
