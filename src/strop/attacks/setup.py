"""What comes before an evaluation: the preflight, and the folder with what is done already."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypedDict

import torch
from torch import Tensor, nn

from strop.attacks.campaign import Campaign, Precision
from strop.attacks.examples import Examples, as_examples
from strop.attacks.names import norm_in_words
from strop.attacks.preflight import Finding, preflight, raise_or_warn
from strop.attacks.progress import ProgressStyle, choose_progress
from strop.attacks.suite import Attack, standard_suite
from strop.geometry import Fourier, Norm
from strop.support import InputError
from strop.training import Records, open_run, read_records
from strop.training.distributed import from_first_rank, rank
from strop.training.run_folder import RunFolder, occupied

__all__ = ["Model", "Options", "open_campaign"]

Model = Callable[[Tensor], Tensor]


class Options(TypedDict, total=False):
    """What all evaluations take, beside the model, the data, the norm and eps."""

    attacks: Sequence[Attack] | None
    """By default :func:`strop.attacks.standard_suite`."""
    bounds: tuple[float, float] | None
    """Of the inputs: (0, 1) unless said otherwise, or None."""
    batch_size: int
    """Examples at a time: 250."""
    seed: int
    """Of the attacks that draw: 0."""
    precision: Precision
    """"fp32", or "bf16": search in half precision where that is safe. What is found is verified in
    float32, and searched for again in float32 if it does not hold there."""
    check: Literal["raise", "warn", "off"]
    """What errors of the preflight do: "raise" unless said otherwise, "warn", "off" for no look."""
    out: str | os.PathLike[str] | None
    """A folder for the record of what is done."""
    resume: bool
    """Go on with what is in ``out``, to the same answer."""
    overwrite: bool
    """Start anew in ``out``."""
    progress: ProgressStyle
    """"auto", "bars", "lines" or "quiet"."""


_LOOKED_AT = 256
_DEFAULTS: Options = {
    "attacks": None,
    "bounds": (0, 1),
    "batch_size": 250,
    "seed": 0,
    "precision": "fp32",
    "check": "raise",
    "out": None,
    "resume": False,
    "overwrite": False,
    "progress": "auto",
}


@contextmanager
def open_campaign(
    model: Model, data: Any, norm: Norm, kind: dict[str, Any], given: Options
) -> Iterator[tuple[Campaign, tuple[Attack, ...], dict[str, Any]]]:
    """The campaign, its suite, and what every result of it is told."""
    unknown = sorted(set(given) - set(_DEFAULTS))
    if unknown:
        raise TypeError(f"unknown option {unknown[0]!r}: there are {', '.join(_DEFAULTS)}")
    options: Any = _DEFAULTS | given
    suite = tuple(standard_suite() if options["attacks"] is None else options["attacks"])
    if not suite:
        raise InputError("expected one attack or more, came none: see standard_suite()")
    bounds = options["bounds"]
    examples = as_examples(data)
    device = _device_of(model, examples)
    findings: tuple[Finding, ...] = ()
    if options["check"] != "off":
        first = torch.arange(min(len(examples), _LOOKED_AT, max(1, options["batch_size"])))
        x, y = examples.batch(first, device)
        findings = preflight(model, x, y, bounds=bounds)
        raise_or_warn(findings, mode=options["check"])
    settings = {
        **kind,
        "norm": repr(norm),
        "band": _band_digest(norm),
        "attacks": [attack.name for attack in suite],
        "bounds": None if bounds is None else list(map(float, bounds)),
        "examples": len(examples),
        "data": examples.fingerprint(),
        "model": _model_fingerprint(model),
        "batch_size": options["batch_size"],
        "precision": options["precision"],
    }
    run = None
    if options["out"] is not None:
        chosen = {name: options[name] for name in ("seed", "resume", "overwrite")}
        run = open_run(options["out"], settings=settings, **chosen)
    display = choose_progress(options["progress"])
    with occupied(run):
        done, records = _open_records(run)
        campaign = Campaign(
            model,
            examples,
            norm,
            bounds,
            device,
            batch_size=options["batch_size"],
            seed=options["seed"],
            precision=options["precision"],
            records=records,
            progress=display,
            done=done,
        )
        told = {
            "norm": norm_in_words(norm),
            "findings": findings,
            "settings": settings | {"seed": options["seed"]},
        }
        try:
            yield campaign, suite, told
        finally:
            display.stop()
            records.close()


def _open_records(run: RunFolder | None) -> tuple[dict[tuple[int, int], dict[str, Any]], Records]:
    """What all processes of an earlier run have done, and where this process writes."""
    if run is None:
        return {}, Records()
    if not run.resume:
        from_first_rank(lambda: _sweep(run.path))
    files = sorted(from_first_rank(lambda: [str(p) for p in run.path.glob("records*.jsonl")]))
    events = [event for file in files for event in read_records(file)]
    done = {(event["stage"], event["batch"]): event for event in events}
    own = run.records if rank() == 0 else run.path / f"records-{rank()}.jsonl"
    whole = own.read_bytes().rfind(b"\n") + 1 if own.exists() else 0
    return done, Records(own, length=whole)


def _sweep(folder: Path) -> None:
    """Remove what the other processes of an overwritten run have recorded."""
    for old in folder.glob("records-*.jsonl"):
        old.unlink()


def _device_of(model: Any, examples: Examples) -> torch.device:
    if isinstance(model, nn.Module):
        for tensor in (*model.parameters(), *model.buffers()):
            return tensor.device
    return examples.inputs(torch.zeros(1, dtype=torch.long)).device


def _band_digest(norm: Norm) -> str | None:
    band = norm.band if isinstance(norm, Fourier) else None
    return None if band is None else hashlib.sha256(band.numpy().tobytes()).hexdigest()[:16]


def _model_fingerprint(model: Any) -> str | None:
    """Of the weights; None for a function, which has none that could be seen."""
    if not isinstance(model, nn.Module):
        return None
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
