"""The catalogue of mechanisms: one file each, one entry each.

`build` makes a mechanism from its name and what a file declares, `choose` picks the one that a
closed domain gets by default.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import POSITIONS, Encoding, Mechanism, Value
from client_sdk.mechanisms.block_hadamard_response import BlockHadamardResponse
from client_sdk.mechanisms.count_mean_sketch import CountMeanSketch
from client_sdk.mechanisms.d_bit_flip import DBitFlip
from client_sdk.mechanisms.declared import Declared
from client_sdk.mechanisms.discrete_laplace import DiscreteLaplace
from client_sdk.mechanisms.exponential import Exponential
from client_sdk.mechanisms.generalized_randomized_response import GeneralizedRandomizedResponse
from client_sdk.mechanisms.hadamard_count_mean_sketch import HadamardCountMeanSketch
from client_sdk.mechanisms.hadamard_response import HadamardResponse
from client_sdk.mechanisms.hierarchical_histogram import HierarchicalHistogram
from client_sdk.mechanisms.local_hashing import (
    BinaryLocalHashing,
    LocalHashing,
    OptimizedLocalHashing,
)
from client_sdk.mechanisms.loloha import Loloha
from client_sdk.mechanisms.memoized_generalized_randomized_response import (
    MemoizedGeneralizedRandomizedResponse,
)
from client_sdk.mechanisms.memoized_unary import (
    MemoizedOptimizedUnary,
    MemoizedSymmetricUnary,
    MemoizedUnary,
)
from client_sdk.mechanisms.multi_hot_unary import MultiHotUnary
from client_sdk.mechanisms.number_grid import NumberGrid
from client_sdk.mechanisms.one_bit_mean import OneBitMean
from client_sdk.mechanisms.padding_and_sampling import PaddingAndSampling
from client_sdk.mechanisms.piecewise import Piecewise
from client_sdk.mechanisms.randomized_response import RandomizedResponse
from client_sdk.mechanisms.rappor import Rappor
from client_sdk.mechanisms.square_wave import SquareWave
from client_sdk.mechanisms.subset_selection import SubsetSelection
from client_sdk.mechanisms.thresholds import exponential
from client_sdk.mechanisms.unary import OptimizedUnary, SymmetricUnary, UnaryEncoding

CATALOGUE: Mapping[str, type[Mechanism]] = {
    mechanism.name: mechanism
    for mechanism in (
        RandomizedResponse,
        GeneralizedRandomizedResponse,
        SymmetricUnary,
        OptimizedUnary,
        OptimizedLocalHashing,
        BinaryLocalHashing,
        HadamardResponse,
        Rappor,
        MultiHotUnary,
        PaddingAndSampling,
        OneBitMean,
        Piecewise,
        DiscreteLaplace,
        SquareWave,
        MemoizedGeneralizedRandomizedResponse,
        MemoizedSymmetricUnary,
        MemoizedOptimizedUnary,
        Loloha,
        DBitFlip,
        HierarchicalHistogram,
        CountMeanSketch,
        HadamardCountMeanSketch,
        SubsetSelection,
        BlockHadamardResponse,
        Exponential,
    )
}

MEMOIZED: Mapping[str, str] = {
    RandomizedResponse.name: MemoizedGeneralizedRandomizedResponse.name,
    GeneralizedRandomizedResponse.name: MemoizedGeneralizedRandomizedResponse.name,
    SymmetricUnary.name: MemoizedSymmetricUnary.name,
    OptimizedUnary.name: MemoizedOptimizedUnary.name,
}
"""Names of the two-stage forms that `memoize` selects, by the names of what they remember."""

__all__ = [
    "CATALOGUE",
    "MEMOIZED",
    "POSITIONS",
    "BinaryLocalHashing",
    "BlockHadamardResponse",
    "CountMeanSketch",
    "DBitFlip",
    "Declared",
    "DiscreteLaplace",
    "Encoding",
    "Exponential",
    "GeneralizedRandomizedResponse",
    "HadamardCountMeanSketch",
    "HadamardResponse",
    "HierarchicalHistogram",
    "LocalHashing",
    "Loloha",
    "Mechanism",
    "MemoizedGeneralizedRandomizedResponse",
    "MemoizedOptimizedUnary",
    "MemoizedSymmetricUnary",
    "MemoizedUnary",
    "MultiHotUnary",
    "NumberGrid",
    "OneBitMean",
    "OptimizedLocalHashing",
    "OptimizedUnary",
    "PaddingAndSampling",
    "Piecewise",
    "RandomizedResponse",
    "Rappor",
    "SquareWave",
    "SubsetSelection",
    "SymmetricUnary",
    "UnaryEncoding",
    "Value",
    "build",
    "choose",
    "choose_several",
]


def choose(domain: int, epsilon: Decimal) -> str:
    """Return the name of the mechanism that a closed domain gets unless its file names one.

    It has the least variance for rare values among those whose reports are simple. Two values:
    Warner's design, optimal at every share. Otherwise generalized randomized response beats
    optimized unary encoding exactly while domain < 3 e^epsilon + 2 (Wang et al. 2017, section 5).
    """
    if domain == 2:
        return RandomizedResponse.name
    if domain < 3 * exponential(epsilon) + 2:
        return GeneralizedRandomizedResponse.name
    return OptimizedUnary.name


def choose_several(options: int, most: int, epsilon: Decimal) -> str:
    """Return the name of the mechanism that a choice of several options gets by default."""
    all_bits = MultiHotUnary.from_epsilon(options, most, epsilon)
    one_of_them = PaddingAndSampling.from_epsilon(options, most, epsilon)
    return min(all_bits, one_of_them, key=lambda mechanism: mechanism.rare_variance).name


def build(name: str, declared: Declared | None = None, **fields: Any) -> Mechanism:
    """Make a mechanism by its name.

    Args:
        name: As in the catalogue.
        declared: What a file says about it.
        **fields: Instead of `declared`, its attributes and options side by side.

    Raises:
        ParameterError: There is no such mechanism, or it cannot be what is declared.
    """
    mechanism = CATALOGUE.get(name)
    if mechanism is None:
        known = ", ".join(sorted(CATALOGUE))
        raise ParameterError(f"mechanism must be one of {known}, got {name!r}")
    if declared is None:
        own = {key: fields.pop(key, None) for key in ("domain", "epsilon", "epsilon_permanent")}
        declared = Declared(**own, options=fields)
    return mechanism.declared(declared)
