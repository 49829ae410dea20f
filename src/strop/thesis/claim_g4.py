"""Claim G4: inner products of gradients and centres without the gradients (with G5).

    strop thesis run claim-G4

Thesis section 4.3.2 and appendix A.2.1. <C,g>, <C,C> and <g,g> from activations and output
gradients, for fully connected and convolutional layers and by both routes of the appendix, against
gradients that autograd gives one example at a time, in double precision. Then the centre of rank
one: the product of means where activations and output gradients are uncorrelated by construction
(all pairs), and on the clusters of a trained network beside the truncated SVD and random centres.
Expected: equal up to rounding; means exact when uncorrelated, and far from it on real layers; no
centre of rank one nearer than the SVD's. Seconds at every preset.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from strop.gradients import Rank1, cluster_gradients, per_example_gradients
from strop.gradients.per_example import Factored, matrix_shape
from strop.models import sequential
from strop.thesis.calls import Each, Record, one_by_one
from strop.thesis.drawing import Row, Table
from strop.thesis.image_models import digits_arrays


@dataclass(frozen=True)
class Settings:
    """Examples and centres of the layers, and the training of the small network."""

    examples: int = 12
    centres: int = 5
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    images: int = 1000
    steps: int = 200
    clusters: int = 20


PRESETS = {
    "smoke": Settings(seeds=(0,), images=200, steps=20, clusters=5),
    "small": Settings(),
    "gpu": Settings(),
    "paper": Settings(),
}

LAYERS = ("linear", "linear at 7 positions", "conv 3x3", "conv 5x5, stride 2", "conv, groups")
NETWORK = "Conv(1,8,3,1,1) ReLU Conv(8,16,3,2,1) ReLU Flatten Linear(256,32) ReLU Linear(32,10)"


def compute(settings: Settings, each: Each = one_by_one) -> list[Record]:
    shared = {"examples": settings.examples, "centres": settings.centres}
    trained = {
        "images": settings.images,
        "steps": settings.steps,
        "clusters": settings.clusters,
    }
    return [
        *each(
            inner_products,
            [shared | {"layer": name, "seed": seed} for name in LAYERS for seed in settings.seeds],
        ),
        *each(uncorrelated, [{"seed": seed} for seed in settings.seeds]),
        *(
            record
            for records in each(real_centres, [trained | {"seed": s} for s in settings.seeds])
            for record in records
        ),
    ]


def inner_products(*, layer: str, examples: int, centres: int, seed: int) -> Record:
    """The largest error of each inner product, relative to the norms of its factors."""
    generator = torch.Generator().manual_seed(seed)
    module, inputs = _layer(layer, examples, generator)
    slopes = torch.randn(module(inputs).shape, generator=generator, dtype=torch.float64)

    def losses(model: nn.Module, batch: Any) -> Tensor:
        return (torch.tanh(model(batch[0])) * batch[1]).flatten(1).sum(1)

    found = per_example_gradients(module, losses, (inputs, slopes))["weight"]
    assert isinstance(found, Factored)
    weight = module.weight
    rows, columns = matrix_shape(weight.shape)
    explicit = torch.stack(
        [
            torch.autograd.grad(losses(module, (x[None], s[None])).sum(), weight)[0]
            for x, s in zip(inputs, slopes, strict=True)
        ]
    )
    left, right = (
        torch.randn(centres, size, generator=generator, dtype=torch.float64)
        for size in (rows, columns)
    )
    products = torch.einsum("ko,ki->koi", left, right).reshape(centres, *weight.shape)
    wanted = torch.einsum("kp,np->nk", products.flatten(1), explicit.flatten(1))
    norms = explicit.flatten(1).square().sum(1)
    scale = norms.sqrt()[:, None] * products.flatten(1).norm(dim=1)
    grouped = left.reshape(centres, found.groups, found.outputs)
    whole = found.block(0, found.outputs)
    first = torch.einsum("ngoi,kgo,ki->nk", whole, grouped, right)
    a, d = found.factors()
    by_positions = ((a @ a.mT) * (d @ d.mT)).sum((1, 2, 3))
    squares = products.flatten(1).square().sum(1)
    return {
        "kind": "products",
        "layer": layer,
        "seed": seed,
        "Cg": float(((found.inner_rank_one(left, right) - wanted) / scale).abs().max()),
        "Cg_gradient_first": float(((first - wanted) / scale).abs().max()),
        "Cg_projection_first": float(
            ((found.rank_one_by_factors(grouped, right) - wanted) / scale).abs().max()
        ),
        "CC": float((left.square().sum(1) * right.square().sum(1) / squares - 1).abs().max()),
        "gg": float((found.squared_norms() / norms - 1).abs().max()),
        "gg_gradient_first": float((whole.flatten(1).square().sum(1) / norms - 1).abs().max()),
        "gg_positions": float((by_positions / norms - 1).abs().max()),
    }


def _layer(
    name: str, examples: int, generator: torch.Generator
) -> tuple[nn.Linear | nn.Conv2d, Tensor]:
    """A layer without bias, in double precision, and its inputs."""
    made: dict[str, tuple[Any, tuple[int, ...]]] = {
        "linear": (nn.Linear(9, 6, bias=False), (9,)),
        "linear at 7 positions": (nn.Linear(9, 6, bias=False), (7, 9)),
        "conv 3x3": (nn.Conv2d(3, 4, 3, padding=1, bias=False), (3, 6, 6)),
        "conv 5x5, stride 2": (nn.Conv2d(3, 4, 5, stride=2, bias=False), (3, 9, 9)),
        "conv, groups": (nn.Conv2d(4, 6, 3, groups=2, padding=1, bias=False), (4, 5, 5)),
    }
    layer, shape = made[name]
    values = torch.randn(layer.weight.shape, generator=generator)
    layer.weight = nn.Parameter(values)
    inputs = torch.randn(examples, *shape, generator=generator, dtype=torch.float64)
    return layer.double(), inputs


def uncorrelated(*, seed: int) -> Record:
    """All pairs of some activations and some output gradients, and the same drawn dependently."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(6, 9, generator=generator, dtype=torch.float64) + 1
    d = torch.randn(5, 7, generator=generator, dtype=torch.float64) + 1
    pairs = torch.cartesian_prod(torch.arange(6), torch.arange(5))
    together = torch.randn(30, 9, generator=generator, dtype=torch.float64) + 1
    dependent = together[:, :7] ** 2
    return {
        "kind": "constructed",
        "seed": seed,
        "uncorrelated": means_error(a[pairs[:, 0]], d[pairs[:, 1]]),
        "correlated": means_error(together, dependent),
    }


def means_error(activations: Tensor, gradients: Tensor) -> float:
    """How far the product of means lies from the mean of products, relative to the latter."""
    mean = torch.einsum("ni,no->oi", activations, gradients) / len(activations)
    product = torch.outer(gradients.mean(0), activations.mean(0))
    return float((product - mean).norm() / mean.norm())


def real_centres(*, images: int, steps: int, clusters: int, seed: int) -> list[Record]:
    """Residuals of rank-one centres, over clusters, for each layer of a small trained network."""
    inputs, labels = digits_arrays(odd=False)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(inputs), generator=generator)[:images]
    pictures, classes = inputs[chosen].reshape(-1, 1, 8, 8).double(), labels[chosen]
    model = sequential(NETWORK, generator=generator).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def losses(model: nn.Module, batch: Any) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")

    for _ in range(steps):
        rows = torch.randint(len(classes), (64,), generator=generator)
        optimizer.zero_grad()
        losses(model, (pictures[rows], classes[rows])).mean().backward()
        optimizer.step()
    data = torch.utils.data.TensorDataset(pictures, classes)
    found = cluster_gradients(
        model, losses, data, n_clusters=clusters, engine=Rank1(iterations=3), generator=generator
    )
    records = []
    for name, part in per_example_gradients(model, losses, (pictures, classes)).items():
        if isinstance(part, Factored):
            records.append(
                {"kind": "real", "layer": name, "shape": list(part.shape), "seed": seed}
                | _residuals(part, found.assignment, clusters, generator)
            )
    return records


def _residuals(
    part: Factored, assignment: Tensor, clusters: int, generator: torch.Generator
) -> Record:
    sizes = torch.bincount(assignment, minlength=clusters)
    kept = sizes > 0
    means = part.sums_by(assignment, count=clusters).reshape(clusters, *matrix_shape(part.shape))
    means = (means / sizes.clamp(min=1)[:, None, None])[kept].detach()
    a, d = (
        values.new_zeros(clusters, values.shape[1]).index_add_(0, assignment, values)[kept]
        / sizes[kept][:, None]
        for values in (part.mean_activations().detach(), part.summed_gradients().detach())
    )
    whole = means.flatten(1).square().sum(1)
    u, s, vh = torch.linalg.svd(means, full_matrices=False)
    nearest = means - s[:, :1, None] * u[..., :1] @ vh[:, :1]
    svd = nearest.flatten(1).square().sum(1)
    # The best multiple of a random centre near the SVD's: nearer than random ones from nowhere.
    others = []
    for spread in (0.01, 0.1, 1.0):
        left = u[..., 0] + spread * torch.randn(u[..., 0].shape, generator=generator)
        right = vh[:, 0] + spread * torch.randn(vh[:, 0].shape, generator=generator)
        inner = torch.einsum("koi,ko,ki->k", means, left, right)
        others.append(whole - inner.square() / (left.square().sum(1) * right.square().sum(1)))
    product = (means - torch.einsum("ko,ki->koi", d, a)).flatten(1).square().sum(1)
    return {
        "means": float((product.sum() / whole.sum()).sqrt()),
        "svd": float((svd.sum() / whole.sum()).sqrt()),
        "beaten": int((torch.stack([*others, product]) < svd * (1 - 1e-9) - 1e-12 * whole).sum()),
    }


def draw(records: list[Record]) -> list[Table]:
    names = {
        "Cg": "<C,g>",
        "Cg_gradient_first": "eq. A.2",
        "Cg_projection_first": "eq. A.3",
        "CC": "<C,C>",
        "gg": "<g,g>",
        "gg_gradient_first": "by gradients",
        "gg_positions": "by positions",
    }
    products = [one for one in records if one["kind"] == "products"]
    first = Table(
        ("layer", *names.values()),
        tuple(
            Row(
                (
                    layer,
                    *(
                        f"{max(one[name] for one in products if one['layer'] == layer):.0e}"
                        for name in names
                    ),
                )
            )
            for layer in LAYERS
        ),
        caption="Largest relative error against gradients by autograd, double precision",
    )
    real = [one for one in records if one["kind"] == "real"]
    made = [one for one in records if one["kind"] == "constructed"]
    rows = [
        Row((word, f"{max(one[word] for one in made):.1e}", "", ""))
        for word in ("uncorrelated", "correlated")
    ]
    for layer in dict.fromkeys(one["layer"] for one in real):
        some = [one for one in real if one["layer"] == layer]
        rows.append(
            Row(
                (
                    f"network, {layer} {tuple(some[0]['shape'])}",
                    *(f"{sum(one[k] for one in some) / len(some):.2f}" for k in ("means", "svd")),
                    str(sum(one["beaten"] for one in some)),
                )
            )
        )
    second = Table(
        ("centres of rank one", "means", "SVD", "nearer than the SVD"),
        tuple(rows),
        caption="Distance to the mean gradient, relative to its norm; network on digits",
    )
    return [first, second]
