"""Values of closed domains that are remembered with noise: cases for the exact audit."""

from client_sdk.mechanisms import (
    DBitFlip,
    Loloha,
    MemoizedGeneralizedRandomizedResponse,
    MemoizedOptimizedUnary,
    MemoizedSymmetricUnary,
)
from tests.conformance.exact import Case

LGrr = MemoizedGeneralizedRandomizedResponse

CASES = [
    Case("lsue-2-values", MemoizedSymmetricUnary.from_epsilons(2, 1, 2), "1"),
    Case("lsue-5-values", MemoizedSymmetricUnary.from_epsilons(5, "0.5", 4), "0.5"),
    Case("lsue-128-values", MemoizedSymmetricUnary.from_epsilons(128, "0.7", 1), "0.7"),
    Case("losue-3-values", MemoizedOptimizedUnary.from_epsilons(3, 1, 2), "1"),
    Case("losue-5-values", MemoizedOptimizedUnary.from_epsilons(5, 2, 20), "2"),
    Case("losue-200-values", MemoizedOptimizedUnary.from_epsilons(200, 1, 4), "1"),
    Case("lgrr-2-values", LGrr.from_epsilons(2, "0.01", 40), "0.01"),
    Case("lgrr-4-values", LGrr.from_epsilons(4, 1, 2), "1"),
    Case("lgrr-24-values", LGrr.from_epsilons(24, 2, 4), "2"),
    Case("lgrr-40-values", LGrr.from_epsilons(40, "0.5", 4), "0.5"),
    Case("loloha-2-cells", Loloha.from_epsilons(20, 2, 1, 2), "1"),
    Case("loloha-4-cells", Loloha.from_epsilons(300, 4, "1.2", 3), "1.2"),
    Case("loloha-5-cells", Loloha.from_epsilons(7, 5, "1.5", 3), "1.5"),
    Case("dbitflip-4-of-32", DBitFlip.from_epsilon(32, 4, 1), "1"),
    Case("dbitflip-1-of-16", DBitFlip.from_epsilon(16, 1, 2), "2"),
    Case("dbitflip-5-of-5", DBitFlip.from_epsilon(5, 5, "0.3"), "0.3"),
    Case("dbitflip-24-of-400", DBitFlip.from_epsilon(400, 24, 3), "3"),
    # e^{eps/2} with one bit spends half of epsilon (reference 10.2).
    Case(
        "dbitflip-half-spent",
        DBitFlip.from_probabilities(16, 1, "0.7310585786300049", "0.2689414213699951"),
        "1.0000000000000002",
    ),
]
