"""What one pass over the data tells of every example: its gradient in short, and the last layer.

The last layer's gradient is ``g_i = d_i h_i^T``: its input h_i says what the network sees in the
example, and d_i, for cross-entropy ``softmax(z_i) - onehot(y_i)``, where its label pulls it.

Legend: n examples, r sketch coordinates, f features, c classes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from strop.gradients.capture import Use, capture
from strop.gradients.mislabels import View
from strop.gradients.network import per_example_gradients, random_projection
from strop.gradients.passes import LossFunction, device_of, indexed_batches
from strop.support import InputError
from strop.training.measuring import measuring


@dataclass(frozen=True, eq=False)
class GradientEvidence:
    """Every example's gradient in short; all tensors on the CPU.

    Attributes:
        losses: (n,).
        norms: (n,) exact norms of the gradients.
        sketches: (n, r) random projections of the gradients, ``E <s_i, s_j> = <g_i, g_j>``.
        features: (n, f) the input of the last layer; without such a layer the unit sketches.
        logits: (n, c) the output of the last layer; None where it has several for an example.
        labels: (n,) the class that each gradient pulls towards, where the loss is the
            cross-entropy of these logits; else None.
    """

    losses: Tensor
    norms: Tensor
    sketches: Tensor
    features: Tensor
    logits: Tensor | None = None
    labels: Tensor | None = None

    def __len__(self) -> int:
        return len(self.losses)

    @property
    def view(self) -> View:
        """Predictions and features, for ``score_labels``."""
        if self.logits is None:
            raise InputError(
                "expected a linear layer last, with one row of logits for each example, but this "
                "model's last layer is another"
            )
        return View(logits=self.logits, features=self.features)


def gradient_evidence(
    model: nn.Module,
    loss_fn: LossFunction,
    dataset: Any,
    *,
    generator: torch.Generator,
    sketch_size: int = 256,
    batch_size: int = 128,
    collate: Callable[[list[Any]], Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> GradientEvidence:
    """One pass in evaluation mode: norms, sketches, and what the last layer sees and says.

    Args:
        model: any module; its mode and all randomness are afterwards as before.
        loss_fn: ``loss_fn(model, batch)`` with one loss per example.
        dataset: map-style, as for ``indexed_batches``.
        generator: where the random projection comes from.
        sketch_size: length of a sketch.
        batch_size: examples at a time.
        collate: makes a batch of a list of examples.
        progress: called with the examples done and all of them.

    >>> model = nn.Linear(4, 3)
    >>> def losses(model, batch):
    ...     return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")
    >>> data = torch.utils.data.TensorDataset(torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]))
    >>> gradient_evidence(model, losses, data, generator=torch.Generator()).labels
    tensor([0, 1, 2, 0, 1])
    """
    if not len(dataset):
        raise InputError("expected at least one example, but the dataset is empty")
    projection = random_projection(model, size=sketch_size, generator=generator)
    rows: dict[str, list[Tensor]] = {
        name: [] for name in ("losses", "norms", "sketches", "features", "logits", "pulls")
    }
    done = 0
    with measuring(model):
        batches = indexed_batches(
            dataset, batch_size=batch_size, collate=collate, device=device_of(model)
        )
        for indices, batch in batches:
            seen: list[Tensor] = []
            found_losses = _remembering(loss_fn, seen)
            with capture(model) as tape:
                found = per_example_gradients(model, found_losses, batch, check=done == 0)
            squared = torch.stack([part.squared_norms() for part in found.values()]).sum(0)
            sketches = torch.stack(
                [part.inner_rank_one(*projection.factors[name]) for name, part in found.items()]
            ).sum(0)
            head = _head(tape.uses)
            made = {
                "losses": seen[0],
                "norms": squared.clamp_min(0).sqrt(),
                "sketches": sketches / sketch_size**0.5,
            }
            if head is not None:
                made |= _of_head(head)
            for name, values in made.items():
                rows[name].append(values.detach().float().cpu())
            done += len(indices)
            if progress is not None:
                progress(done, len(dataset))
    found_rows = {name: torch.cat(parts) for name, parts in rows.items() if parts}
    _refuse_infinite(found_rows["sketches"])
    return _evidence(found_rows)


def _refuse_infinite(sketches: Tensor) -> None:
    broken = (~sketches.isfinite().all(1)).nonzero().flatten()
    if len(broken):
        raise InputError(
            f"expected finite gradients, but {len(broken)} of {len(sketches)} examples have NaN or "
            f"infinite ones, example {int(broken[0])} first: the training has diverged, or these "
            "inputs are broken"
        )


def _remembering(loss_fn: LossFunction, seen: list[Tensor]) -> LossFunction:
    def remembered(model: nn.Module, batch: Any) -> Tensor:
        losses = loss_fn(model, batch)
        seen.append(losses)
        return losses

    return remembered


def _evidence(rows: dict[str, Tensor]) -> GradientEvidence:
    logits, pulls = rows.pop("logits", None), rows.pop("pulls", None)
    if "features" not in rows:
        sketches = rows["sketches"]
        tiny = torch.finfo(sketches.dtype).tiny
        rows["features"] = sketches / sketches.norm(dim=1, keepdim=True).clamp_min(tiny)
    if logits is None or pulls is None:
        return GradientEvidence(**rows)
    # Of p - onehot(y) the entry of y alone is negative; where p_y > 1/2 it may round to 0.
    labels = torch.where(pulls.amin(1) < -0.5, pulls.argmin(1), logits.argmax(1))
    expected = logits.softmax(1) - one_hot(labels, logits.shape[1])
    told = torch.allclose(pulls, expected, atol=1e-3)  # else the loss is another
    return GradientEvidence(**rows, logits=logits, labels=labels if told else None)


def _head(uses: list[Use]) -> Use | None:
    """The last call of a layer that multiplies by a weight matrix."""
    for use in reversed(uses):
        if isinstance(use.layer, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d) and use.reached:
            return use
    return None


def _of_head(use: Use) -> dict[str, Tensor]:
    """Features, and for one position per example the logits and what pulls at them.

    Over positions features are averaged, over those alone whose output matters to the loss: padding
    does not.
    """
    features, pulls = use.activations, use.output_gradients
    if not isinstance(use.layer, nn.Linear):  # (n, channels, positions…)
        return {"features": features.flatten(2).mean(2)}
    if features.ndim == 2:
        return {"features": features, "logits": use.outputs[0], "pulls": pulls}
    features, pulls = features.flatten(1, -2), pulls.flatten(1, -2)
    matter = pulls.abs().amax(2, keepdim=True) > 0
    matter = torch.where(matter.any(1, keepdim=True), matter, torch.ones_like(matter))
    return {"features": (features * matter).sum(1) / matter.sum(1)}
