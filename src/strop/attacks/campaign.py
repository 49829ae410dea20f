"""Many attacks on many examples: in batches, in several processes, with a record of what is done.

A campaign knows one number for each example: the norm of the smallest perturbation found so far
that is verified to be misclassified; zero where the model errs without one, infinity where none was
found. Attacks lower it, and every answer is read off it.

The work is cut into stages (an attack on some of the examples) and these into batches. What a batch
finds depends on the distances before its stage, on the seed and on nothing else: neither on which
process does it, nor on whether the run was killed in between.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from strop.attacks.examples import Examples
from strop.attacks.feasible import Neighbourhood
from strop.attacks.losses import margin
from strop.attacks.progress import Progress
from strop.attacks.suite import Attack
from strop.attacks.verified import ROOM, distances, shortened
from strop.geometry import Norm
from strop.support import InputError
from strop.training.distributed import gather_objects, rank, world_size
from strop.training.randomness import mix
from strop.training.records import Records

__all__ = ["AttackReport", "Campaign", "Precision"]

Precision = Literal["fp32", "bf16"]
CLEAN = "clean"


@dataclass(frozen=True)
class AttackReport:
    """What one attack of a suite has done.

    Args:
        name: of the attack.
        attacked: how many examples it was run on.
        broken: for how many of these it found a verified perturbation within the budget.
        refused: how many it claimed to have broken, where the claim did not hold.
        gradient_calls: batches of gradients that the model was asked for.
        seconds: of all processes together.
    """

    name: str
    attacked: int
    broken: int
    refused: int
    gradient_calls: int
    seconds: float


@dataclass
class Campaign:
    """The state of an evaluation; see the head of the file."""

    model: Callable[[Tensor], Tensor]
    examples: Examples
    norm: Norm
    bounds: tuple[float, float] | None
    device: torch.device
    batch_size: int
    seed: int
    precision: Precision
    records: Records
    progress: Progress
    done: dict[tuple[int, int], dict[str, Any]]
    distance: Tensor = field(init=False)
    reports: list[AttackReport] = field(default_factory=list)
    stages: int = 0

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InputError(f"expected batch_size >= 1, came {self.batch_size}: take more")
        if self.precision not in ("fp32", "bf16"):
            raise InputError(
                f"expected the precision 'fp32' or 'bf16', came {self.precision!r}: the search may "
                "run in bf16, verification is always in float32"
            )
        self.distance = torch.full((len(self.examples),), math.inf, dtype=torch.float64)

    def within(self, eps: float | Tensor) -> Tensor:
        """Which examples are broken by a perturbation of norm up to ``eps``."""
        return self.distance <= torch.as_tensor(eps, dtype=torch.float64) * (1 + ROOM)

    def clean(self) -> None:
        """Find out which examples the model gets wrong as they are."""

        def work(rows: Tensor, batch: int) -> tuple[Tensor, dict[str, int]]:
            x, y = self._load(rows)
            with torch.no_grad():
                wrong = margin(self.model(x), y) > 0
            return torch.where(wrong, 0.0, math.inf).double().cpu(), {}

        self._stage(CLEAN, torch.arange(len(self.examples)), work)

    def attack(self, attack: Attack, rows: Tensor, eps: float | Tensor, *, draw_back: bool) -> None:
        """Run an attack on the examples of a mask, each with its budget; keep what is shorter.

        ``draw_back`` spends a few forward passes on shortening what was found.
        """
        index = rows.nonzero().flatten()
        budget = torch.as_tensor(eps, dtype=torch.float64).expand(len(self.distance))
        stage = self.stages

        def work(batch_rows: Tensor, batch: int) -> tuple[Tensor, dict[str, int]]:
            x, y = self._load(batch_rows)
            radii = budget[batch_rows].to(self.device)
            seed = mix(self.seed, stage, batch)
            return self._attack_batch(attack, x, y, radii, seed=seed, draw_back=draw_back)

        before = self.within(budget)
        entries = self._stage(attack.name, index, work)
        if len(index):
            broken = int((self.within(budget) & ~before).sum())
            self._report(attack.name, len(index), broken, entries)

    def _attack_batch(
        self, attack: Attack, x: Tensor, y: Tensor, eps: Tensor, *, seed: int, draw_back: bool
    ) -> tuple[Tensor, dict[str, int]]:
        half = self.precision == "bf16" and not attack.smallest
        searched = self._in_half if half else self.model
        size, claimed, calls = self._search(searched, attack, x, y, eps, seed, draw_back)
        again = claimed & size.isinf()
        if half and bool(again.any()):
            # Broken in half precision alone: full precision has its own search.
            size[again], claimed[again], more = self._search(
                self.model, attack, x[again], y[again], eps[again], seed, draw_back
            )
            calls += more
        refused = int((claimed & size.isinf()).sum())
        return size.cpu(), {"gradient_calls": calls, "refused": refused}

    def _search(
        self,
        searched: Callable[[Tensor], Tensor],
        attack: Attack,
        x: Tensor,
        y: Tensor,
        eps: Tensor,
        seed: int,
        draw_back: bool,
    ) -> tuple[Tensor, Tensor, int]:
        """The verified distance of each example, which were claimed, and calls of gradients."""
        with warnings.catch_warnings():
            # Too few classes for a loss: the preflight says it, once and not for every batch.
            warnings.filterwarnings("ignore", message="the loss .* needs at least")
            found = attack.run(
                searched,
                x,
                y,
                norm=self.norm,
                eps=_no_larger(eps, x.dtype),
                bounds=self.bounds,
                generator=torch.Generator(device=self.device).manual_seed(seed),
            )
        limit = torch.full_like(eps, math.inf) if attack.smallest else eps
        around = Neighbourhood(x, self.norm, _no_larger(limit, x.dtype), self.bounds)
        size, kept = distances(self.model, around, y, found.adversarial, found.success)
        if draw_back and not attack.smallest:
            size = shortened(self.model, around, y, kept, size)
        return size, found.success, found.gradient_calls

    def _in_half(self, x: Tensor) -> Tensor:
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            return self.model(x).to(x.dtype)

    def _load(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        x, y = self.examples.batch(rows, self.device)
        return (x.float() if x.dtype in (torch.float16, torch.bfloat16) else x), y

    def _stage(
        self,
        name: str,
        index: Tensor,
        work: Callable[[Tensor, int], tuple[Tensor, dict[str, int]]],
    ) -> list[dict[str, Any]]:
        """Do the batches of this process that have no record yet, then learn of all others."""
        stage = self.stages
        self.stages += 1
        batches = [] if len(index) == 0 else list(index.split(self.batch_size))
        self.progress.stage(name, len(batches), len(index))
        entries: dict[int, dict[str, Any]] = {}
        for number, rows in enumerate(batches):
            entry = self.done.get((stage, number))
            if entry is not None:
                self._check(entry, name, rows)
                entries[number] = entry
            elif number % world_size() == rank():
                began = time.perf_counter()
                size, counts = work(rows, number)
                entry = {
                    "stage": stage,
                    "name": name,
                    "batch": number,
                    "rows": [int(rows[0]), int(rows[-1]), len(rows)],
                    "distances": [None if math.isinf(d) else d for d in size.tolist()],
                    "seconds": time.perf_counter() - began,
                    **counts,
                }
                self.records.append("batch", entry)
                entries[number] = entry
            self.progress.batch(number + 1)
        for others in gather_objects(entries):
            entries |= others
        for number, rows in enumerate(batches):
            size = torch.tensor(
                [math.inf if d is None else d for d in entries[number]["distances"]],
                dtype=torch.float64,
            )
            self.distance[rows] = torch.minimum(self.distance[rows], size)
        return [entries[number] for number in range(len(batches))]

    def _check(self, entry: dict[str, Any], name: str, rows: Tensor) -> None:
        if entry["name"] != name or entry["rows"] != [int(rows[0]), int(rows[-1]), len(rows)]:
            raise InputError(
                f"the records are of another run: stage {entry['stage']} is {entry['name']} on "
                f"{entry['rows'][2]} examples there, {name} on {len(rows)} here; start anew in "
                "another folder, or overwrite this one"
            )

    def _report(self, name: str, attacked: int, broken: int, entries: list[dict[str, Any]]) -> None:
        self.reports.append(
            AttackReport(
                name,
                attacked,
                broken,
                sum(entry["refused"] for entry in entries),
                sum(entry["gradient_calls"] for entry in entries),
                sum(entry["seconds"] for entry in entries),
            )
        )


def _no_larger(eps: Tensor, dtype: torch.dtype) -> Tensor:
    """eps in ``dtype``, rounded down: a budget that rounding widens would not be the one asked."""
    rounded = eps.to(dtype)
    down = torch.nextafter(rounded, torch.zeros_like(rounded))
    return torch.where(rounded.double() > eps, down, rounded)
