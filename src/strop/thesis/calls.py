"""The calls of an experiment: each kept when it is done, shared, resumed, run side by side.

An experiment asks for its work as a list of calls of one function with plain arguments. A call that
was made before, with the same arguments and the same code, is not made again, whichever table or
figure asked for it first.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from strop.support import read_json, write_json
from strop.support.parallel import run_calls
from strop.thesis.code_version import code_version

Record = dict[str, Any]
"""One measurement: plain JSON values by name."""


class Each(Protocol):
    """How the calls of an experiment are made: the results in the order of the calls."""

    def __call__(
        self, function: Callable[..., Any], calls: Sequence[Mapping[str, Any]], /
    ) -> list[Any]: ...


def one_by_one(function: Callable[..., Any], calls: Sequence[Mapping[str, Any]], /) -> list[Any]:
    """Every call, here and now, nothing kept.

    >>> one_by_one(lambda base, power: base**power, [{"base": 2, "power": 3}])
    [8]
    """
    return [function(**call) for call in calls]


@dataclass(frozen=True)
class KeptCalls:
    """Calls whose results are files of a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     each = KeptCalls(Path(folder), quiet=True)
    ...     each(_doctest_square, [{"number": 3}]), len(list(Path(folder).iterdir()))
    ([9], 1)
    """

    folder: Path
    jobs: int = 1
    backend: str | None = None
    quiet: bool = False
    spent: dict[Path, float] = field(default_factory=dict)
    """The seconds that each call took which was asked for, whenever it was made."""

    def __call__(
        self, function: Callable[..., Any], calls: Sequence[Mapping[str, Any]], /
    ) -> list[Any]:
        paths = [self.path_of(function, call) for call in calls]
        missing = {
            path: (function, dict(call), path, self.jobs)
            for path, call in zip(paths, calls, strict=True)
            if not path.exists()
        }
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            disable=self.quiet or not missing,
        ) as bar:
            task = bar.add_task(function.__name__.strip("_").replace("_", " "), total=len(missing))
            work = list(missing.values())
            for _ in run_calls(call_and_keep, work, jobs=self.jobs, backend=self.backend):
                bar.advance(task)
        kept = {path: read_json(path, what="kept result of a call") for path in paths}
        self.spent.update({path: one["seconds"] for path, one in kept.items()})
        return [kept[path]["result"] for path in paths]

    def path_of(self, function: Callable[..., Any], call: Mapping[str, Any]) -> Path:
        """The file of one call: named by its function, arguments and code."""
        version = code_version(function.__module__)
        named = json.dumps([function.__module__, function.__qualname__, version, call])
        key = hashlib.sha256(named.encode()).hexdigest()[:16]
        return self.folder / f"{function.__name__.strip('_')}-{key}.json"

    def seconds(self, function: Callable[..., Any]) -> float | None:
        """What one call of this function took on average, of those that are kept."""
        found = self.folder.glob(f"{function.__name__.strip('_')}-*.json")
        times = [read_json(path)["seconds"] for path in found]
        return sum(times) / len(times) if times else None


def call_and_keep(
    function: Callable[..., Any], call: Mapping[str, Any], path: Path, jobs: int
) -> None:
    """Make one call and keep its result; beside others it takes one thread."""
    if jobs != 1:
        import torch

        torch.set_num_threads(1)
    began = time.perf_counter()
    result = function(**call)
    write_json(
        path,
        {
            "function": f"{function.__module__}.{function.__qualname__}",
            "call": dict(call),
            "seconds": time.perf_counter() - began,
            "result": result,
        },
    )


def _doctest_square(number: int) -> int:
    return number * number
