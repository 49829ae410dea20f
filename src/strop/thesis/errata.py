"""Where the thesis's text errs: what it says, what is so, and how that is known."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Erratum:
    """One error of the text."""

    where: str
    says: str
    correct: str


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        "section 3.2.2",
        "The probability that a mini-batch misses falls under 1 % for M ≥ 44, and at the 99.9th "
        "percentile for M ≥ 6905.",
        "By the formula given there it does for M ≥ 45, and for M ≥ 4604; under 0.1 % at 6906. "
        "Claim N2 computes it.",
    ),
    Erratum(
        "section 3.3.3",
        "Fine-tuning VGG19 raises the gap between VSE0 and VSE++ to 6.1 % of caption R@1.",
        "By table 3.2 it is 57.2 - 50.1 = 7.1. Nor does more data alone raise it there: 5.9 with "
        "RC, 5.1 with RC+rV.",
    ),
    Erratum(
        "table 3.1",
        "Embedding Net has a caption R@5 of 79.3 and an R@10 of 69.4.",
        "A recall cannot fall as k grows: one of the two is misprinted.",
    ),
    Erratum(
        "figure 3.3",
        "The cost of a hard negative is in the range [0, 2].",
        "With the margin of 0.2 the hinge of two cosines reaches 2.2.",
    ),
    Erratum(
        "section 4.2 and appendix A",
        "Normalised variance divides by the second non-central moment, and values above 1 are "
        "reported.",
        "That ratio can never pass 1. The appendix divides by the squared norm of the mean "
        "gradient; so does strop, estimated without bias. The other is offered by name.",
    ),
    Erratum(
        "figure 4.7",
        "Ten points with 10,000 copies each are 20 times the data.",
        "On 50,000 images they are twice the data.",
    ),
    Erratum(
        "section 4.3",
        "ResNet8 has three parameters for each example of CIFAR-10.",
        "It has about 75,000: 1.5 for each example.",
    ),
    Erratum(
        "algorithm 5.1",
        "Steps of the Fourier-l∞ attack without a projection.",
        "After m steps the perturbation reaches m times epsilon; strop projects.",
    ),
    Erratum(
        "appendix A",
        "The loss is L-Lipschitz.",
        "The descent bound needs an L-Lipschitz gradient.",
    ),
    Erratum(
        "section 5.3",
        "The sign of the steepest-descent step.",
        "The step goes along the negative of the steepest ascent direction.",
    ),
    Erratum(
        "lemma 1",
        "The margin, the distance to the boundary, is min y (w.x + b) / ||w||.",
        "The distance in the attack norm divides by its dual, ||w||_*.",
    ),
    Erratum(
        "section 5.2.1, the two models",
        "0 < max_delta y phi(x + delta) <= c.",
        "The least value over the perturbations is meant: min_delta.",
    ),
    Erratum("section 5.5", "Epsilon in [0, 8] x 255.", "Epsilon in [0, 8] / 255."),
    Erratum(
        "table B.2",
        "Rice2020Overfitting (L2) is listed twice.",
        "24 models besides the standard one, not 25.",
    ),
)
