"""Claims of chapter 5: wider margins."""

from itertools import pairwise
from statistics import fmean

from strop.thesis.claim import Claim, Records
from strop.thesis.claims_attacks import m9, m10, m11, m12
from strop.thesis.claims_linear import m2, m3, m4, m5, m7
from strop.thesis.verdicts import Verdict, above, all_of, computed


def m1(records: Records) -> Verdict:
    some = records["claim-M1"]
    worst = max(one["difference"] for one in some)
    attacked = all(one["withstands_below"] and not one["withstands_above"] for one in some)
    return computed(
        worst < 1e-4 and attacked,
        f"{len(some)} problems in four norms: the three solutions differ by at most {worst:.1e}; "
        f"attacks at 0.999 of the margin all fail, at 1.001 all succeed: {_yes(attacked)}",
    )


def m6(records: Records) -> Verdict:
    some = records["claim-M6"]
    step = max(
        abs(one["cvxpy"] / one["closed_form"] - 1) for one in some if one["cvxpy"] is not None
    )
    exceeded = max(one["random"] / one["closed_form"] for one in some)
    dual = max(abs(one["dual_of_fourier_l1"] / one["fourier_linf"] - 1) for one in some)
    return computed(
        step < 1e-5 and exceeded <= 1 + 1e-9 and dual < 1e-5,
        f"{len(some)} gradients: CVXPY's maximum within {step:.0e} of the step; random extreme "
        f"points reach at most {exceeded:.2f} of it; the dual of Fourier-l1 is Fourier-l∞ to "
        f"{dual:.0e}",
    )


def m8(records: Records) -> Verdict:
    some = records["claim-M8"]
    beyond = [one for one in some if one["share"] > 1]
    size = max(one["size"] for one in beyond)
    error = max(abs(one["offset"] - one["limit"]) for one in beyond)
    before = min(one["size"] for one in some if one["share"] < 1)
    return computed(
        size < 1e-3 and error < 1e-2,
        f"{len(beyond)} saddle points beyond half the distance of the class means: ||w|| <= "
        f"{size:.0e} and |b - p*| <= {error:.0e}; below that epsilon ||w|| >= {before:.2g}: the "
        "constant is reached at a finite epsilon",
    )


def m13(records: Records) -> Verdict:
    some = records["claim-M13"]
    right, broken = sum(one["right"] for one in some), sum(one["broken"] for one in some)
    exact = sum(one["exact"] for one in some)
    flipped = sum(one["exact_and_flipped_just_past"] for one in some)
    overstated = sum(one["overstated"] for one in some)
    return computed(
        broken == 0 and flipped == exact,
        f"of {right} points the certificate within the linear region was broken at {broken}; at "
        f"{exact} it is exact, and just past it the label changes at {flipped}; without the "
        f"condition on the region the gradient's radius is too large at {overstated} "
        f"({overstated / max(right, 1):.0%})",
    )


def m14(records: Records) -> Verdict:
    some = records["claim-M14"]
    apart = max(abs(one["eps"] - one["bisected"]) / one["eps"] for one in some)
    gap = max(one["gap"] for one in some)
    grows = all(
        one["eps"] < two["eps"] or one["slack"] >= two["slack"]
        for one in some
        for two in some
        if (one["attack"], one["seed"]) == (two["attack"], two["seed"])
        and one["multiple"] < two["multiple"]
    )
    return computed(
        apart < 1e-3 and gap < 1e-5 and grows,
        f"{len(some)} problems: bisection and the one convex problem agree to {apart:.0e}, "
        f"certified to {gap:.0e}; epsilon grows with the slack: {_yes(grows)}",
    )


def m15(records: Records) -> Verdict:
    some = records["claim-M15"]
    layers = sorted({one["layers"] for one in some})

    def of(depth: int, key: str) -> list[float]:
        return [one[key] for one in some if one["layers"] == depth]

    parts = [
        above(of(depth, "cosine"), 0.98, f"L = {depth}: cosine of stationarity") for depth in layers
    ]
    parts += [
        above(
            [
                here - there
                for here, there in zip(of(shallow, "effective"), of(deep, "effective"), strict=True)
            ],
            0,
            f"effective frequencies at L = {shallow} less those at L = {deep}",
        )
        for shallow, deep in pairwise(layers)
    ]
    return all_of(parts)


def m16(records: Records) -> Verdict:
    some = records["claim-M16"]
    preferred = all(
        one["erring_risk"] < one["robust_risk"]
        and one["erring_errors"] > 0
        and one["robust_errors"] == 0
        for one in some
    )
    numbers = ", ".join(
        f"{one['loss']}: {one['erring_risk']:.3f} against {one['robust_risk']:.3f}" for one in some
    )
    ends = all(
        one["curve"][-1]["errors"] == 0 and one["curve"][-1]["risk"] <= one["erring_risk"]
        for one in some
    )
    return computed(
        preferred,
        f"loss at the maximal epsilon of a classifier that errs on one point, against that of the "
        f"maximally robust one: {numbers}; adding the robust weights mends the error at no loss "
        f"(linear models): {_yes(ends)}",
    )


def m17(records: Records) -> Verdict:
    some = records["claim-M17"]
    own = dict.fromkeys(("diagonal", "full", "adagrad", "adam"), "own P")
    own |= {"gd": "l2", "adam-short": "linf"}
    parts = []
    for method, norm in own.items():
        runs = [one["shares"] for one in some if one["method"] == method]
        others = [name for name in ("l1", "l2", "linf") if name != norm]
        lead = [shares[norm] - max(shares[name] for name in others) for shares in runs]
        reached = fmean(shares[norm] for shares in runs)
        parts.append(
            above(
                lead,
                0,
                f"{method}: {reached:.1%} of the best margin in {norm}, ahead "
                "of every other norm by",
            )
        )
    return all_of(parts)


def _yes(true: bool) -> str:
    return "yes" if true else "no"


MARGINS: tuple[Claim, ...] = (
    Claim("M1", "Maximally robust = maximum margin = minimum dual norm.", ("claim-M1",), m1),
    Claim(
        "M2",
        "CD, GD and SignGD approach the maximal margin, each for its own attack only.",
        ("figure-5.2",),
        m2,
    ),
    Claim("M3", "The gap between methods grows with d/n.", ("figure-5.2",), m3),
    Claim(
        "M4",
        "Regularisation with a small coefficient reaches the same solution.",
        ("figure-5.2", "figure-5.3"),
        m4,
    ),
    Claim(
        "M5",
        "GD on a linear conv net tends to the minimum Fourier-l1 solution, with a gap.",
        ("figure-5.3",),
        m5,
    ),
    Claim(
        "M6",
        "The closed-form Fourier-l∞ step maximises a linear loss over the ball.",
        ("claim-M6",),
        m6,
    ),
    Claim(
        "M7",
        "Adversarial training needs the maximal epsilon; regularisation does not.",
        ("figure-5.4",),
        m7,
    ),
    Claim(
        "M8",
        "At large epsilon the saddle point is the constant majority predictor.",
        ("claim-M8",),
        m8,
    ),
    Claim(
        "M9",
        "High-frequency attacks succeed at smaller epsilon than low-frequency ones.",
        ("figure-5.1",),
        m9,
    ),
    Claim(
        "M10",
        "Every CIFAR-10 model has almost no accuracy at Fourier-l∞ 20/255.",
        ("figure-5.5",),
        m10,
    ),
    Claim(
        "M11",
        "Models trained for corruptions hold as much Fourier-l∞ as l2/l∞-trained ones.",
        ("figure-5.5",),
        m11,
    ),
    Claim(
        "M12",
        "Adversarial training is best at its own epsilon; TRADES loses as it shrinks.",
        ("figure-5.4",),
        m12,
    ),
    Claim(
        "M13",
        "Locally linear networks: y f(x) > eps ||grad f(x)||_dual certifies.",
        ("claim-M13",),
        m13,
    ),
    Claim("M14", "The maximally robust classifier with slack.", ("claim-M14",), m14),
    Claim(
        "M15",
        "Deeper linear conv nets tend to stationary points of a Fourier quasi-norm.",
        ("claim-M15",),
        m15,
    ),
    Claim("M16", "The saddle-point loss can prefer a classifier that errs.", ("claim-M16",), m16),
    Claim("M17", "Preconditioned methods have their own maximal robustness.", ("claim-M17",), m17),
)
