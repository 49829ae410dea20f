"""Clusters of real models' gradients: the engines against plain autograd, and every edge."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from gradients.clustering_problem import flat_gradients, losses, objective, problem
from strop.gradients import Exact, Rank1, Sketch, cluster_gradients
from strop.support import InputError

ENGINES = ["exact", "rank1", "sketch"]


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
