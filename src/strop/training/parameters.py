"""Parameter groups: which parameters learn at which rate, and which are decayed."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from strop.support import InputError


def parameter_groups(
    model: nn.Module,
    *,
    lr: float,
    weight_decay: float = 0.0,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    decay_vectors: bool = True,
) -> list[dict[str, Any]]:
    """Groups for a torch optimizer; parameters that are frozen are left out.

    ``overrides`` maps a prefix of parameter names to options of its own; the longest matching
    prefix wins. With ``decay_vectors=False``, parameters of fewer than two dimensions (biases,
    normalisation) are not decayed.

    >>> model = nn.ModuleDict({"image": nn.Linear(2, 2), "text": nn.Linear(2, 2)})
    >>> groups = parameter_groups(model, lr=2e-4, overrides={"image": {"lr": 2e-5}})
    >>> [(group["name"], group["lr"], len(group["params"])) for group in groups]
    [('image', 2e-05, 2), ('rest', 0.0002, 2)]
    """
    overrides = overrides or {}
    groups: dict[tuple[str, bool], dict[str, Any]] = {}
    matched: set[str] = set()
    for name, parameter in model.named_parameters():
        prefixes = [prefix for prefix in overrides if _is_under(name, prefix)]
        matched.update(prefixes)
        if not parameter.requires_grad:
            continue
        prefix = max(prefixes, key=len, default="")
        spared = not decay_vectors and parameter.ndim < 2
        if (prefix, spared) not in groups:
            options = {"lr": lr, "weight_decay": weight_decay, **overrides.get(prefix, {})}
            if spared:
                options["weight_decay"] = 0.0
            title = (prefix or "rest") + (", not decayed" if spared else "")
            groups[prefix, spared] = {"params": [], "name": title, **options}
        groups[prefix, spared]["params"].append(parameter)
    unmatched = [prefix for prefix in overrides if prefix not in matched]
    if unmatched:
        names = ", ".join(name for name, _ in model.named_children())
        raise InputError(
            f"no parameter of the model lies under {unmatched[0]!r}; its parts are {names}"
        )
    return list(groups.values())


def _is_under(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")
