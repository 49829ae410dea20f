"""Claims of chapter 5: wider margins."""

from strop.thesis.claim import Claim

MARGINS: tuple[Claim, ...] = (
    Claim("M1", "Maximally robust = maximum margin = minimum dual norm.", (), None),
    Claim(
        "M2",
        "CD, GD and SignGD approach the maximal margin, each for its own attack only.",
        (),
        None,
    ),
    Claim("M3", "The gap between methods grows with d/n.", (), None),
    Claim("M4", "Regularisation with a small coefficient reaches the same solution.", (), None),
    Claim(
        "M5",
        "GD on a linear conv net tends to the minimum Fourier-l1 solution, with a gap.",
        (),
        None,
    ),
    Claim("M6", "The closed-form Fourier-l∞ step maximises a linear loss over the ball.", (), None),
    Claim(
        "M7", "Adversarial training needs the maximal epsilon; regularisation does not.", (), None
    ),
    Claim("M8", "At large epsilon the saddle point is the constant majority predictor.", (), None),
    Claim(
        "M9", "High-frequency attacks succeed at smaller epsilon than low-frequency ones.", (), None
    ),
    Claim("M10", "Every CIFAR-10 model has almost no accuracy at Fourier-l∞ 20/255.", (), None),
    Claim(
        "M11",
        "Models trained for corruptions hold as much Fourier-l∞ as l2/l∞-trained ones.",
        (),
        None,
    ),
    Claim(
        "M12",
        "Adversarial training is best at its own epsilon; TRADES loses as it shrinks.",
        (),
        None,
    ),
    Claim("M13", "Locally linear networks: y f(x) > eps ||grad f(x)||_dual certifies.", (), None),
    Claim("M14", "The maximally robust classifier with slack.", (), None),
    Claim(
        "M15",
        "Deeper linear conv nets tend to stationary points of a Fourier quasi-norm.",
        (),
        None,
    ),
    Claim("M16", "The saddle-point loss can prefer a classifier that errs.", (), None),
    Claim("M17", "Preconditioned methods have their own maximal robustness.", (), None),
)
