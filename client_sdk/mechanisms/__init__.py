"""Mechanisms: one file each, one entry each in the catalogue, loaded when they are first used."""

from typing import TYPE_CHECKING, Any

from client_sdk.errors import ParameterError
from client_sdk.mechanisms.base import POSITIONS, Encoding, Mechanism, Value
from client_sdk.mechanisms.catalogue import CATALOGUE, CLASSES, MEMOIZED, load_class
from client_sdk.mechanisms.choice import choose, choose_several
from client_sdk.mechanisms.declared import Declared

if TYPE_CHECKING:
    from client_sdk.mechanisms.block_hadamard_response import BlockHadamardResponse
    from client_sdk.mechanisms.count_mean_sketch import CountMeanSketch
    from client_sdk.mechanisms.d_bit_flip import DBitFlip
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
    from client_sdk.mechanisms.unary import OptimizedUnary, SymmetricUnary, UnaryEncoding

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


def __getattr__(name: str) -> type[Mechanism]:
    if name in CLASSES:
        return load_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
