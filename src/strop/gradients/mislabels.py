"""Which labels are wrong: by what the network says, and by what it sees beside each example.

The gradient of the last layer, ``(p_i - onehot(y_i)) h_i^T``, has two factors, and each is a
witness. The first holds the prediction p_i, in which a network that has learnt the wrong label by
heart speaks for it. The second holds the features h_i, and the labels of the examples that lie
nearest in them were not learnt from this one.

Legend: n examples, f features, c classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from strop.support import InputError

NEIGHBOURS = 20
PRIOR = 5.0
"""Votes given to the classes before any neighbour votes, by their frequency."""
WEIGHT = 0.5
"""Of the neighbours beside the network."""
SUSPECT = 0.02
"""Belief below which a label is called suspect: odds of 50 to 1 against it."""
BLOCK = 1024


@dataclass(frozen=True, eq=False)
class View:
    """How one network sees the examples.

    Attributes:
        logits: (n, c).
        features: (n, f), the input of its last layer.
    """

    logits: Tensor
    features: Tensor


@dataclass(frozen=True, eq=False)
class LabelScores:
    """How far each label is believed.

    Attributes:
        labels: (n,) as given.
        belief: (n,) in the given label, from 0 to 1; for ranking, it is no calibrated probability.
        suggested: (n,) the other class that is believed most.
    """

    labels: Tensor
    belief: Tensor
    suggested: Tensor

    @property
    def ranking(self) -> Tensor:
        """(n,) the examples, the most suspect first."""
        return self.belief.argsort(stable=True)

    def suspects(self, *, below: float = SUSPECT) -> Tensor:
        """Examples whose label is believed less than ``below``, the most suspect first."""
        return self.ranking[: int((self.belief < below).sum())]


def score_labels(views: Sequence[View], labels: Tensor) -> LabelScores:
    """How far each label is believed, by networks and by neighbours.

    They are witnesses whose log-probabilities are averaged,

        log b_i = mean over networks of [log p_i + 1/2 log q_i] + constant,

    with q_i the share of each class among the 20 nearest other examples; the label y is believed
    ``b_iy``.

    Args:
        views: one or more networks. Networks trained on different folds of the data are best: one
            that has not seen an example cannot have learnt its label by heart.
        labels: (n,) the labels as given.

    >>> logits = torch.tensor([[4.0, 0.0]] * 30 + [[0.0, 4.0]] * 30)
    >>> labels = torch.tensor([0] * 30 + [1] * 30)
    >>> labels[7] = 1
    >>> score_labels([View(logits, logits)], labels).suspects()
    tensor([7])
    """
    if not views or any(len(view.logits) != len(labels) for view in views):
        raise InputError(
            f"expected at least one view of the {len(labels)} labelled examples, but came views of "
            f"{[len(view.logits) for view in views]}"
        )
    classes = views[0].logits.shape[1]
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise InputError(
            f"expected labels from 0 to {classes - 1}, one for each logit, but they run from "
            f"{int(labels.min())} to {int(labels.max())}"
        )
    witnesses = [
        view.logits.double().log_softmax(1)
        + WEIGHT * neighbour_votes(view.features, labels, classes=classes).log()
        for view in views
    ]
    belief = torch.stack(witnesses).mean(0).softmax(1)
    taken = one_hot(labels, classes).bool()
    return LabelScores(
        labels=labels,
        belief=belief[taken],
        suggested=belief.masked_fill(taken, -1).argmax(1),
    )


def neighbour_votes(
    features: Tensor, labels: Tensor, *, classes: int, neighbours: int = NEIGHBOURS
) -> Tensor:
    """``q_i``, (n, c): the classes of the nearest other examples, an example's own label left out.

    >>> features = torch.tensor([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]])
    >>> labels = torch.tensor([0, 0, 1, 1, 1, 1])
    >>> neighbour_votes(features, labels, classes=2, neighbours=2)[:, 1].round(decimals=2)
    tensor([0.5900, 0.5900, 0.4500, 0.7300, 0.7300, 0.7300], dtype=torch.float64)
    """
    count = len(features)
    k = min(neighbours, count - 1)
    frequency = torch.bincount(labels, minlength=classes).double() / max(count, 1)
    prior = PRIOR * (frequency + 1 / max(count, 1)) / (1 + classes / max(count, 1))
    votes = prior.repeat(count, 1)
    if k < 1:
        return votes / PRIOR
    for start in range(0, count, BLOCK):
        rows = torch.arange(start, min(start + BLOCK, count), device=features.device)
        distances = torch.cdist(features[rows], features)
        distances[rows - start, rows] = torch.inf
        nearest = distances.topk(k, largest=False).indices
        votes[rows.cpu()] += one_hot(labels[nearest.cpu()], classes).sum(1)
    return votes / (PRIOR + k)
