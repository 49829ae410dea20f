"""Every table, figure and further claim of the thesis: what it shows there, and its module here."""

from dataclasses import dataclass

from strop.support import InputError


@dataclass(frozen=True)
class Item:
    """One entry: ``shows`` says in words what the thesis prints."""

    id: str
    title: str
    shows: str

    @property
    def module(self) -> str:
        """The module that computes and draws it: ``figure-3.1`` is ``figure_3_1``."""
        return f"strop.thesis.{self.id.lower().replace('-', '_').replace('.', '_')}"


_PICTURES = "x, x+delta, delta and |F(delta)| of CIFAR-10 test pictures"

CATALOGUE: tuple[Item, ...] = (
    Item(
        "table-3.1",
        "VSE++ variants on COCO",
        "R@1, R@10 and median rank, 1K (5 folds) and 5K: the best VSE++ is 8.6 points of R@1 over "
        "the best VSE0 and almost 9 over the best method published before.",
    ),
    Item(
        "table-3.2",
        "VSE0 against VSE++ on COCO",
        "The two losses under one crop, random crops, more data, fine-tuning and ResNet-152: VSE++ "
        "is ahead in every row, by more as the setting grows stronger.",
    ),
    Item(
        "table-3.3",
        "VSE0 against VSE++ on Flickr30K",
        "The same comparison on a smaller set: the same order, fine-tuning adding most.",
    ),
    Item(
        "table-3.4",
        "Order embeddings with the hardest negative",
        "Order0, Order++, VSE0, VSE++ on ten crops: Order++ gains 4.5 points of R@1 over Order0, "
        "VSE++ 1.8 over VSE0.",
    ),
    Item(
        "figure-3.1",
        "Two configurations that SH and MH rank in opposite order",
        "A query with one very close negative, and one with many slight violators: the sum of "
        "hinges calls the second worse, the maximum the first.",
    ),
    Item(
        "figure-3.2",
        "R@1 along training, SH against MH",
        "On Flickr30K the sum leads in the first epochs, then the maximum overtakes and stays.",
    ),
    Item(
        "figure-3.3",
        "Hard negatives of a mini-batch",
        "For some queries the hardest negative of a random batch of 128, with its cost: already "
        "close in meaning.",
    ),
    Item(
        "figure-3.4",
        "Top-1 captions of VSE0 and VSE++",
        "Pictures with the caption each model ranks first, and the rank of a true one.",
    ),
    Item(
        "figure-3.5",
        "Distances of negatives at epochs 0, 10 and 30",
        "Under MH the distribution of the similarity of negatives is skewed with a sharp drop, "
        "under SH near symmetric.",
    ),
    Item(
        "figure-3.6",
        "R@1 against the size of the negative set",
        "At batch 128, sets of 2 to 512: a peak near 128; 2 is slightly under SH; 512 lower than "
        "the peak, above SH.",
    ),
    Item(
        "figure-4.1",
        "Gradients of 2-D logistic regression in four clusters",
        "Steps 0, 1 and 2 of gradient descent: a cluster can hold both classes.",
    ),
    Item(
        "figure-4.3",
        "Variance along one trajectory: SG-B, SG-2B, SVRG, GC",
        "MNIST: both variances fall, GC under SG-2B. CIFAR-10: they rise, more after each drop of "
        "the learning rate; GC between SG-B and SG-2B. ImageNet: GC equals SG-B.",
    ),
    Item(
        "figure-4.4",
        "Random Features: variance against over-parametrisation",
        "Little variance when over-parametrised; a larger learning rate lowers it; the teacher "
        "does not matter.",
    ),
    Item(
        "figure-4.5",
        "Random Features: normalised variance",
        "Above 1 when hidden units over examples are under 5.",
    ),
    Item(
        "figure-4.6",
        "CIFAR-10 with label smoothing and with corrupt labels",
        "Smoothing lessens, 10 % corrupt labels remove the fluctuations of GC.",
    ),
    Item(
        "figure-4.7",
        "CIFAR with ten points duplicated 10,000 times",
        "GC falls well under SG-2B.",
    ),
    Item(
        "figure-4.8",
        "Random Features with 10, 50, 90 % duplicates",
        "The advantage of GC grows with the share of duplicates.",
    ),
    Item(
        "table-A.1",
        "Cost of the A and U steps",
        "Operations against back-propagation: at most twice, for batches not under the number of "
        "clusters.",
    ),
    Item("table-A.2", "Hyper-parameters of chapter 4", "Per data set."),
    Item(
        "figure-A.1",
        "Random Features: mean variance",
        "Figure 4.4 with the mean over the trajectory in place of the maximum.",
    ),
    Item(
        "figure-5.1",
        "Perturbations in l∞ and Fourier-l∞, by band",
        "High-frequency perturbations break a network at a smaller epsilon than low ones.",
    ),
    Item(
        "figure-5.2",
        "Maximal epsilon against d/n: l∞, l2, l1",
        "Each method (CD, GD with line search, SignGD, each regularisation) is best for its own "
        "attack, and the gap grows with d/n.",
    ),
    Item(
        "figure-5.3",
        "Maximal epsilon against d/n: Fourier-l∞",
        "The linear convolutional network and Fourier-l1 regularisation are near the exact line; "
        "the network leaves a gap.",
    ),
    Item(
        "figure-5.4",
        "Trade-offs of adversarial training and regularisation",
        "Adversarial training is best at the epsilon it is tested at; regularisation needs only a "
        "small coefficient; TRADES loses robustness as its coefficient shrinks.",
    ),
    Item(
        "figure-5.5",
        "Maximal Fourier-l∞ epsilon of published defences",
        "No CIFAR-10 model, robust or not, keeps accuracy at 20/255.",
    ),
    Item("table-B.1", "Hyper-parameter ranges of chapter 5", "Per figure."),
    Item("table-B.2", "The models of figure 5.5", "Names and training of RobustBench models."),
    Item("figure-B.1", "Margins that match figure 5.2", "As figure 5.2, with CVXPY's solution."),
    Item("figure-B.2", "Margins that match figure 5.3", "As figure 5.3, with CVXPY's solution."),
    *(
        Item(f"figure-B.{number}", f"{who} model, {band}", _PICTURES)
        for number, (who, band) in enumerate(
            (
                ("Standard", "every frequency"),
                ("Standard", "high and low band"),
                ("l∞-trained", "every frequency"),
                ("l∞-trained", "high and low band"),
                ("l2-trained", "every frequency"),
                ("l2-trained", "high and low band"),
            ),
            start=3,
        )
    ),
    Item("figure-B.9", "Unit balls in 3-D with their shadows", "l2, l1, l∞ and Fourier-l∞."),
)

FURTHER: tuple[Item, ...] = (
    Item("claim-N2", "How often a mini-batch misses the hardest decile", "0.9^(M-1)."),
    Item(
        "claim-N8",
        "Batch size against training time",
        "128 and 256 beat SH; large ones start slowly.",
    ),
    Item("claim-N11", "Cost of a step of MH and of SH", "MH costs no more."),
    Item("claim-N12", "Images normalised or not", "Not normalising helps SH, hardly changes MH."),
    Item("claim-N13", "The spectrum between SH and MH", "Named, not explored."),
    Item("claim-N14", "Wrong captions", "Negatives from a mini-batch make MH robust to them."),
    Item("claim-N15", "Oscillation of SH on the toy", "SH can circle with no fall in its loss."),
    Item("claim-G1", "The stratified estimator", "Unbiased; its variance in closed form."),
    Item("claim-G3", "Descent of the objective", "The weighted steps do not always lower it."),
    Item("claim-G4", "Inner products without gradients", "Equal to the explicit ones."),
    Item("claim-G15", "Variance and descent", "Variance reduction pays only above zeta = 1."),
    Item("claim-G17", "Duplicates, wrong labels, worst group", "Named as future work."),
    Item(
        "claim-G18",
        "What tracks the speed of convergence",
        "Normalised variance, better than variance.",
    ),
    Item(
        "claim-G19",
        "Refreshing the clusters",
        "Often enough removes the fluctuations; no speed-up.",
    ),
    Item("claim-M1", "Three problems, one solution", "Robust = margin = minimum norm."),
    Item("claim-M6", "The Fourier-l∞ step", "Maximises a linear loss over the ball."),
    Item("claim-M8", "The saddle point at large epsilon", "The constant majority predictor."),
    Item("claim-M13", "Locally linear networks", "A margin over the gradient's norm certifies."),
    Item("claim-M14", "The robust classifier with slack", "Named, not studied."),
    Item("claim-M15", "Deeper linear networks", "Stationary points of a Fourier quasi-norm."),
    Item("claim-M16", "The saddle point can prefer an error", "The two-model example."),
    Item("claim-M17", "Preconditioned methods", "Named as future work."),
)
"""Experiments behind claims that no table or figure shows."""


def items() -> tuple[Item, ...]:
    """All that can be run, in the thesis's order."""
    return CATALOGUE + FURTHER


def find_item(name: str) -> Item:
    """The item of an id, in any case.

    >>> find_item("FIGURE-3.1").title
    'Two configurations that SH and MH rank in opposite order'
    """
    for item in items():
        if item.id.lower() == name.lower():
            return item
    raise InputError(
        f"expected an id such as figure-4.3, table-3.2 or claim-N2, came {name!r}; "
        "`strop thesis list` names all"
    )
