"""The version, in a module of its own: whoever needs it imports nothing else."""

__version__ = "0.1.0"
