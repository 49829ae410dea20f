"""Clusters of real models' gradients: the engines against plain autograd, and every edge."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from gradients.gradient_oracle import network_gradients
from strop.gradients import Exact, Rank1, Sketch, cluster_gradients
from strop.gradients.engine_rank1 import _Run, _truncated
from strop.models import mlp
from strop.support import InputError

ENGINES = ["exact", "rank1", "sketch"]


def losses(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


def problem(examples=24, *, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    model = mlp((6, 5, 3), generator=generator).to(dtype)
    inputs = torch.randn(examples, 6, generator=generator, dtype=dtype)
    targets = torch.randint(3, (examples,), generator=generator)
    return model, TensorDataset(inputs, targets)


def flat_gradients(model, data, loss=losses):
    def single(model, n):
        return loss(model, [tensor[n : n + 1] for tensor in data.tensors])[0]

    found = network_gradients(model, single, examples=len(data))
    return torch.cat([part.flatten(1) for part in found.values()], dim=1).double()


def objective(gradients, assignment):
    total = 0.0
    for k in assignment.unique():
        members = gradients[assignment == k]
        total += len(members) * float((members - members.mean(0)).square().sum())
    return total


@pytest.mark.parametrize("cap", [None, 2.0, 1.0])
def test_the_exact_engine_reports_the_variance_of_its_own_partition(cap):
    model, data = problem(dtype=torch.float64)
    found = cluster_gradients(model, losses, data, n_clusters=5, engine="exact", cap=cap)
    assert found.objective == pytest.approx(
        objective(flat_gradients(model, data), found.assignment)
    )
    assert found.insurance <= (24 if cap is None else max(cap, 5 * 5 / 24))
    assert found.engine == "exact"
    assert found.cap == cap


def test_a_long_sketch_ends_near_the_exact_engine():
    model, data = problem(60)
    gradients = flat_gradients(model, data)
    exact, sketch = (
        cluster_gradients(model, losses, data, n_clusters=8, engine=engine)
        for engine in ("exact", Sketch(size=2048))
    )
    assert sketch.objective == pytest.approx(objective(gradients, sketch.assignment), rel=0.2)
    assert objective(gradients, sketch.assignment) < 1.25 * exact.objective
    assert sketch.history == tuple(sorted(sketch.history, reverse=True))


@pytest.mark.parametrize("update", ["means", "svd"])
def test_the_thesis_engine_is_what_its_equations_say(update):
    """The same A and U steps with every gradient and centre written out."""
    model, data = problem(dtype=torch.float64)
    k, iterations, batch = 4, 3, 10
    settings = Rank1(iterations=iterations, update=update)
    generator = torch.Generator().manual_seed(1)
    found = cluster_gradients(
        model, losses, data, n_clusters=k, engine=settings, generator=generator, batch_size=batch
    )

    weights = {n: p for n, p in model.named_parameters() if p.ndim == 2}
    generator = torch.Generator().manual_seed(1)
    centres = {}
    for name, p in weights.items():
        left, right = (torch.rand(k, size, generator=generator) for size in p.shape)
        centres[name] = torch.einsum("ko,ki->koi", left, right).double() / sum(p.shape) ** 2
    inputs, targets = data.tensors
    hidden = functional.relu(model[1](inputs))
    activations = {"1.weight": inputs, "3.weight": hidden}
    logits = model(inputs)
    outputs = functional.softmax(logits, 1) - functional.one_hot(targets, 3)
    deltas = {"3.weight": outputs, "1.weight": (outputs @ model[3].weight) * (hidden > 0)}
    gradients = {n: torch.einsum("no,ni->noi", deltas[n], activations[n]).detach() for n in weights}
    history = []
    for _ in range(iterations):
        counts, assignment, distances = torch.zeros(k), [], []
        for rows in torch.arange(len(data)).split(batch):
            squared = sum(
                (gradients[n][rows, None] - centres[n]).square().sum((2, 3)) for n in weights
            )
            chosen = (squared * (counts + 1)).argmin(1)
            counts += torch.bincount(chosen, minlength=k)
            assignment.append(chosen)
            distances.append(squared.gather(1, chosen[:, None])[:, 0])
        assignment, distances = torch.cat(assignment), torch.cat(distances)
        history.append(float((counts[assignment] * distances).sum()))
        assert (counts > 0).all()  # no repair in this problem
        for n in weights:
            for c in range(k):
                own = assignment == c
                if update == "means":
                    centres[n][c] = torch.outer(
                        deltas[n][own].mean(0), activations[n][own].mean(0)
                    ).detach()
                else:
                    u, s, vh = torch.linalg.svd(gradients[n][own].mean(0))
                    centres[n][c] = s[0] * torch.outer(u[:, 0], vh[0])
    assert torch.equal(found.assignment, assignment)
    assert found.history == pytest.approx(history)
    assert found.cap is None


def test_distances_at_convolutions_are_to_the_centres_themselves():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2),
        nn.ReLU(),
        nn.Conv2d(4, 3, 2),
        nn.Flatten(),
    ).double()
    images = torch.randn(7, 2, 6, 6, dtype=torch.float64)

    def loss(model, batch):
        return model(batch[0]).square().sum(1)

    data = TensorDataset(images)
    batches = [(torch.arange(7), [images])]
    run = _Run(Rank1(update="svd", rank=2), model, loss, lambda: batches, 3, torch.Generator())
    run.update(torch.tensor([0, 0, 1, 1, 1, 2, 2]))
    factors = dict(run._parts([images]))
    gradients = network_gradients(
        model, lambda m, n: loss(m, [images[n : n + 1]])[0], examples=len(data)
    )
    expected = 0
    for name in factors:
        centre = torch.einsum("kro,kri->koi", run.left[name], run.right[name]).flatten(1)
        flat = gradients[name].flatten(1)
        expected = expected + (flat[:, None] - centre).square().sum(2)
        mean = flat[:2].mean(0).reshape(gradients[name].shape[1], -1)
        u, s, vh = torch.linalg.svd(mean, full_matrices=False)
        nearest = (u[:, :2] * s[:2]) @ vh[:2]
        torch.testing.assert_close(centre[0], nearest.flatten())
    torch.testing.assert_close(run.distances(factors.items()), expected)
    for part in factors.values():
        a, d = part.factors()
        torch.testing.assert_close(part.mean_activations(), a.mean((1, 2)))
        torch.testing.assert_close(part.summed_gradients(), d.sum(2).flatten(1))


def test_full_rank_centres_are_the_means():
    means = torch.randn(3, 4, 5, dtype=torch.float64)
    left, right = _truncated(means, 9)
    torch.testing.assert_close(torch.einsum("kro,kri->koi", left, right), means)


@pytest.mark.parametrize(
    "engine",
    [
        Rank1(online=True, iterations=4),
        Rank1(weighted=False),
        Rank1(layers=("3",)),
        Rank1(update="svd", rank=2),
    ],
)
def test_variants_of_the_thesis_engine_beat_a_random_partition(engine):
    generator = torch.Generator().manual_seed(0)
    model = mlp((6, 5, 3), generator=generator)
    centres = 3 * torch.randn(4, 6, generator=generator)
    kind = torch.arange(80) % 4
    data = TensorDataset(
        centres[kind] + 0.1 * torch.randn(80, 6, generator=generator), kind.clamp_max(2)
    )
    found = cluster_gradients(model, losses, data, n_clusters=4, engine=engine)
    gradients = flat_gradients(model, data)
    shuffled = found.assignment[torch.randperm(80, generator=generator)]
    assert objective(gradients, found.assignment) < 0.8 * objective(gradients, shuffled)


def test_an_empty_cluster_takes_half_of_the_most_distorted():
    model, data = problem()
    run = _Run(Rank1(), model, losses, lambda: [], 3, torch.Generator().manual_seed(0))
    assignment = torch.tensor([0] * 10 + [2] * 14)
    distances = torch.cat([torch.full((10,), 9.0), torch.full((14,), 1.0)])
    repaired = run.repair(assignment, distances)
    assert torch.bincount(repaired).tolist() == [5, 5, 14]
    assert torch.equal(run.repair(repaired, distances), repaired)
    assert len(data) == 24


def test_a_subset_of_layers_sees_those_layers_alone():
    model, _ = problem()
    run = _Run(Rank1(layers=("3",)), model, losses, lambda: [], 2, torch.Generator())
    assert list(run.left) == ["3.weight"]


@pytest.mark.parametrize("engine", ENGINES)
def test_one_cluster_holds_everything(engine):
    model, data = problem(9)
    found = cluster_gradients(model, losses, data, n_clusters=1, engine=engine)
    assert found.sizes.tolist() == [9]


@pytest.mark.parametrize("engine", ["exact", "sketch"])
def test_with_more_clusters_than_data_each_example_is_alone(engine):
    model, data = problem(5)
    found = cluster_gradients(model, losses, data, n_clusters=8, engine=engine)
    assert sorted(found.sizes.tolist()) == [0, 0, 0, 1, 1, 1, 1, 1]
    assert found.objective < 1e-9


def test_the_thesis_engine_may_leave_clusters_empty():
    model, data = problem(5)
    found = cluster_gradients(model, losses, data, n_clusters=8, engine="rank1")
    assert int(found.sizes.sum()) == 5
    assert len(found.sizes) == 8


@pytest.mark.parametrize("engine", ["exact", "sketch"])
def test_duplicates_share_a_cluster_and_add_no_variance(engine):
    model, data = problem(4)
    inputs, targets = (tensor.repeat(6, *[1] * (tensor.ndim - 1)) for tensor in data.tensors)
    found = cluster_gradients(
        model, losses, TensorDataset(inputs, targets), n_clusters=4, engine=engine
    )
    assert found.objective < 1e-6 * max(found.history)
    assert found.sizes.tolist() == [6] * 4


@pytest.mark.parametrize("engine", ENGINES)
def test_gradients_that_are_not_finite_are_refused_by_number(engine):
    model, data = problem()
    data.tensors[0][17] = float("nan")
    with pytest.raises(InputError, match=r"\[17\] are not finite"):
        cluster_gradients(model, losses, data, n_clusters=3, engine=engine, batch_size=5)


@pytest.mark.parametrize("engine", ENGINES)
def test_frozen_parameters_do_not_count(engine):
    model, data = problem(dtype=torch.float64)
    model[1].requires_grad_(False)
    found = cluster_gradients(model, losses, data, n_clusters=3, engine=engine)
    gradients = flat_gradients(model, data)
    assert gradients.shape[1] == 5 * 3 + 3
    if engine == "exact":
        assert found.objective == pytest.approx(objective(gradients, found.assignment))


class LowRank(nn.Module):
    """A frozen layer with a trained low-rank change beside it, as adapters have it."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(6, 3).requires_grad_(False)
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 3, bias=False)

    def forward(self, inputs):
        return self.base(inputs) + self.up(self.down(inputs))


@pytest.mark.parametrize("engine", ENGINES)
def test_adapters_are_clustered_by_their_own_gradients(engine):
    torch.manual_seed(0)
    model, (_, data) = LowRank().double(), problem(dtype=torch.float64)
    found = cluster_gradients(model, losses, data, n_clusters=3, engine=engine)
    assert len(found) == 24
    assert model.base.weight.grad is None
    assert model.up.weight.grad is None


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(11, 4), nn.Linear(4, 11)

    def forward(self, input_ids, attention_mask=None):
        return self.head(self.table(input_ids))


class Sentences:
    """Dict examples padded to one length; labels of the padding are -100."""

    def __init__(self, extra):
        generator = torch.Generator().manual_seed(0)
        self.rows = []
        for index in range(12):
            length = 2 + index % 4
            ids = torch.randint(11, (length,), generator=generator)
            pad = torch.zeros(6 + extra - length, dtype=torch.long)
            self.rows.append(
                {"input_ids": torch.cat([ids, pad]), "labels": torch.cat([ids, pad - 100])}
            )

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def token_losses(model, batch):
    logits = model(input_ids=batch["input_ids"])
    each = functional.cross_entropy(logits.mT, batch["labels"], ignore_index=-100, reduction="none")
    return each.sum(1) / (batch["labels"] != -100).sum(1)


def test_padding_that_the_loss_ignores_changes_nothing():
    torch.manual_seed(0)
    model = Tokens().double()
    found = [
        cluster_gradients(model, token_losses, Sentences(extra), n_clusters=3, engine="exact")
        for extra in (0, 5)
    ]
    assert torch.equal(found[0].assignment, found[1].assignment)
    assert found[0].objective == pytest.approx(found[1].objective)


def test_a_mean_over_the_batch_is_refused_with_the_remedy():
    model, data = problem()
    with pytest.raises(InputError, match='reduction="none"'):
        cluster_gradients(
            model, lambda m, b: functional.cross_entropy(m(b[0]), b[1]), data, n_clusters=2
        )


def test_a_compiled_model_is_refused_with_the_reason_and_a_half_precision_loss_is_not():
    model, data = problem()
    with pytest.raises(InputError, match=r"before torch\.compile"):
        cluster_gradients(torch.compile(model), losses, data, n_clusters=2)

    def autocast(model, batch):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return losses(model, batch)

    found = cluster_gradients(model, autocast, data, n_clusters=3, engine="exact")
    full = objective(flat_gradients(model, data), found.assignment)
    assert found.objective == pytest.approx(full, rel=0.1)


def test_training_state_and_random_numbers_are_left_alone():
    model, data = problem()
    before, state = torch.get_rng_state(), [p.clone() for p in model.parameters()]
    cluster_gradients(model, losses, data, n_clusters=3)
    assert torch.equal(before, torch.get_rng_state())
    assert all(
        torch.equal(a, b) and b.grad is None for a, b in zip(state, model.parameters(), strict=True)
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"engine": "best"}, "engine among"),
        ({"cap": 0.5}, "at least 1"),
        ({"n_clusters": 0}, "positive number"),
        ({"engine": Rank1(layers=("conv9",))}, "expected layers among"),
        ({"engine": Exact(most_numbers=10)}, 'engine="sketch"'),
        ({"dataset": []}, "length is 0"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_remedy(settings, words):
    model, data = problem()
    arguments = {"n_clusters": 2, "dataset": data, **settings}
    dataset = arguments.pop("dataset")
    with pytest.raises(InputError, match=words):
        cluster_gradients(model, losses, dataset, **arguments)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rank": 2}, 'update="svd"'),
        ({"update": "median"}, "'means' or 'svd'"),
        ({"online": True, "update": "svd"}, "running means"),
        ({"iterations": 0}, "at least one iteration"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        Rank1(**settings)


def test_a_model_without_matrices_is_not_for_the_thesis_engine():
    model = nn.Sequential(nn.LayerNorm(6))
    with pytest.raises(InputError, match='engine="sketch"'):
        cluster_gradients(model, losses, problem()[1], n_clusters=2, engine="rank1")


def test_hugging_face_models_with_adapters():
    transformers, peft = pytest.importorskip("transformers"), pytest.importorskip("peft")
    config = transformers.GPT2Config(
        n_layer=1, n_head=2, n_embd=8, vocab_size=11, n_positions=16, resid_pdrop=0.0
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).eval()
    model = peft.get_peft_model(
        model, peft.LoraConfig(target_modules=["c_attn"], r=2, fan_in_fan_out=True)
    ).eval()

    def loss(model, batch):
        logits = model(input_ids=batch["input_ids"]).logits
        labels = batch["labels"]
        each = functional.cross_entropy(logits[:, :-1].mT, labels[:, 1:], reduction="none")
        return each.sum(1) / (labels[:, 1:] != -100).sum(1)

    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter)
    found = cluster_gradients(model, loss, Sentences(0), n_clusters=3)
    assert len(found) == 12
    with pytest.raises(InputError, match='reduction="none"'):
        cluster_gradients(model, lambda m, b: m(**b).loss, Sentences(0), n_clusters=3)
