"""Claims of chapter 4: quieter gradients."""

from strop.thesis.claim import Claim
from strop.thesis.claims_gradients_exact import g1, g2, g3, g4, g5, g7, g16

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
    Claim("G6", "Overhead at most 2x a back-prop; memory as K more samples.", (), None),
    Claim("G7", "V[SG-2B] = V[SG-B]/2 everywhere.", ("claim-G1",), g7),
    Claim(
        "G8", "MNIST: variances fall, normalised under 1, GC under SG-2B, SVRG best late.", (), None
    ),
    Claim(
        "G9", "CIFAR-10: variances rise, more after each drop; GC under SG-B, not SG-2B.", (), None
    ),
    Claim("G10", "ImageNet: normalised variance passes 1, GC equals SG-B.", (), None),
    Claim("G11", "Smoothing lessens, corrupt labels remove the fluctuations of GC.", (), None),
    Claim(
        "G12",
        "Random Features: variance depends on learning rate and h_s/N, not the teacher.",
        (),
        None,
    ),
    Claim("G13", "Random Features: GC lies between SG-B and SG-2B.", (), None),
    Claim("G14", "The gap grows with the share of duplicates.", (), None),
    Claim("G15", "Variance reduction pays only where zeta is above 1.", (), None),
    Claim("G16", "A cluster can hold both classes.", ("figure-4.1",), g16),
    Claim(
        "G17",
        "Clusters expose duplicates and wrong labels; even sampling helps the worst group.",
        (),
        None,
    ),
    Claim(
        "G18", "Normalised variance tracks the speed of convergence better than variance.", (), None
    ),
    Claim(
        "G19",
        "Frequent refreshes remove the fluctuations; GC does not speed CIFAR-10 up.",
        (),
        None,
    ),
)
