"""Claims of chapter 4: quieter gradients."""

from strop.thesis.claim import Claim, Records
from strop.thesis.claims_gradients_exact import g1, g2, g3, g4, g5, g7, g16
from strop.thesis.claims_gradients_features import g12, g13
from strop.thesis.claims_gradients_features import g14 as copies_in_features
from strop.thesis.claims_gradients_runs import g6, g15, g17, g18, g19
from strop.thesis.claims_trajectories import copies_on_pictures, g8, g9, g10, g11
from strop.thesis.verdicts import Verdict, all_of


def g14(records: Records) -> Verdict:
    return all_of([copies_in_features(records), copies_on_pictures(records)])


GRADIENTS: tuple[Claim, ...] = (
    Claim(
        "G1",
        "The stratified estimator is unbiased, its variance N^-2 sum N_k^2 V[g^(k)].",
        ("claim-G1",),
        g1,
    ),
    Claim(
        "G2",
        "Duplicates alone in a cluster add no variance; K=N is GD, K=1 is SGD.",
        ("claim-G1",),
        g2,
    ),
    Claim("G3", "The weighted steps do not always lower the objective.", ("claim-G3",), g3),
    Claim(
        "G4",
        "Inner products from activations and output gradients equal explicit ones.",
        ("claim-G4",),
        g4,
    ),
    Claim(
        "G5",
        "Product-of-means is exact for uncorrelated factors; SVD is the best rank-1.",
        ("claim-G4",),
        g5,
    ),
    Claim("G6", "Overhead at most 2x a back-prop; memory as K more samples.", ("table-A.1",), g6),
    Claim("G7", "V[SG-2B] = V[SG-B]/2 everywhere.", ("claim-G1",), g7),
    Claim(
        "G8",
        "MNIST: variances fall, normalised under 1, GC under SG-2B, SVRG best late.",
        ("figure-4.3",),
        g8,
    ),
    Claim(
        "G9",
        "CIFAR-10: variances rise, more after each drop; GC under SG-B, not SG-2B.",
        ("figure-4.3",),
        g9,
    ),
    Claim("G10", "ImageNet: normalised variance passes 1, GC equals SG-B.", ("figure-4.3",), g10),
    Claim(
        "G11",
        "Smoothing lessens, corrupt labels remove the fluctuations of GC.",
        ("figure-4.6",),
        g11,
    ),
    Claim(
        "G12",
        "Random Features: variance depends on learning rate and h_s/N, not the teacher.",
        ("figure-4.4", "figure-4.5"),
        g12,
    ),
    Claim("G13", "Random Features: GC lies between SG-B and SG-2B.", ("figure-4.4",), g13),
    Claim("G14", "The gap grows with the share of duplicates.", ("figure-4.7", "figure-4.8"), g14),
    Claim("G15", "Variance reduction pays only where zeta is above 1.", ("claim-G15",), g15),
    Claim("G16", "A cluster can hold both classes.", ("figure-4.1",), g16),
    Claim(
        "G17",
        "Clusters expose duplicates and wrong labels; even sampling helps the worst group.",
        ("claim-G17",),
        g17,
    ),
    Claim(
        "G18",
        "Normalised variance tracks the speed of convergence better than variance.",
        ("claim-G18",),
        g18,
    ),
    Claim(
        "G19",
        "Frequent refreshes remove the fluctuations; GC does not speed CIFAR-10 up.",
        ("claim-G19",),
        g19,
    ),
)
