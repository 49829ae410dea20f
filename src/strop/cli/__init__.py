"""The command line: thin. It parses, calls the library, prints."""

from strop.cli.main import main

__all__ = ["main"]
