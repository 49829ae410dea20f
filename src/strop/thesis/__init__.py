"""The thesis, executable: every table, figure and claim is a command with a verdict.

>>> from strop.thesis import find_item
>>> find_item("figure-4.8").title
'Random Features with 10, 50, 90 % duplicates'
"""

from strop.thesis.catalogue import CATALOGUE, FURTHER, Item, find_item, items
from strop.thesis.claims import CLAIMS, Decided, decide
from strop.thesis.run import ItemRun, best_runs, run_item

__all__ = [
    "CATALOGUE",
    "CLAIMS",
    "FURTHER",
    "Decided",
    "Item",
    "ItemRun",
    "best_runs",
    "decide",
    "find_item",
    "items",
    "run_item",
]
