"""The claims of the thesis, each a function of records that answers with a verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strop.thesis.claim import Claim, Records
from strop.thesis.claims_gradients import GRADIENTS
from strop.thesis.claims_margins import MARGINS
from strop.thesis.claims_negatives import NEGATIVES
from strop.thesis.run import ItemRun
from strop.thesis.verdicts import Verdict, not_run

CLAIMS: tuple[Claim, ...] = (*NEGATIVES, *GRADIENTS, *MARGINS)


@dataclass(frozen=True)
class Decided:
    """A claim with its verdict and the runs that it came from."""

    claim: Claim
    verdict: Verdict
    runs: tuple[ItemRun, ...]


def decide(runs: Mapping[str, ItemRun]) -> tuple[Decided, ...]:
    """Every claim, from the runs that are there; without them, not run."""
    return tuple(_decide(claim, runs) for claim in CLAIMS)


def _decide(claim: Claim, runs: Mapping[str, ItemRun]) -> Decided:
    used = tuple(runs[name] for name in claim.needs if name in runs)
    missing = [name for name in claim.needs if name not in runs]
    if claim.decide is None:
        return Decided(claim, not_run("no experiment here speaks to it"), used)
    if missing:
        return Decided(claim, not_run(f"needs {', '.join(missing)}"), used)
    records: Records = {run.item.id: run.records for run in used}
    return Decided(claim, claim.decide(records), used)


def to_rows(decided: tuple[Decided, ...]) -> list[dict[str, Any]]:
    """Claims and verdicts as plain rows."""
    return [
        {
            "claim": one.claim.id,
            "says": one.claim.says,
            "verdict": one.verdict.outcome,
            "evidence": one.verdict.evidence,
            "from": [f"{run.item.id} ({run.preset})" for run in one.runs],
        }
        for one in decided
    ]
