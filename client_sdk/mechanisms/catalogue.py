"""The catalogue of mechanisms: each is loaded when it is first asked for.

An app pays, in memory and at start, for the mechanisms that its metrics.toml uses.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module

from client_sdk.mechanisms.base import Mechanism

CLASSES: Mapping[str, str] = {
    "RandomizedResponse": "randomized_response",
    "GeneralizedRandomizedResponse": "generalized_randomized_response",
    "UnaryEncoding": "unary",
    "SymmetricUnary": "unary",
    "OptimizedUnary": "unary",
    "SubsetSelection": "subset_selection",
    "LocalHashing": "local_hashing",
    "OptimizedLocalHashing": "local_hashing",
    "BinaryLocalHashing": "local_hashing",
    "HadamardResponse": "hadamard_response",
    "BlockHadamardResponse": "block_hadamard_response",
    "Exponential": "exponential",
    "MemoizedGeneralizedRandomizedResponse": "memoized_generalized_randomized_response",
    "MemoizedUnary": "memoized_unary",
    "MemoizedSymmetricUnary": "memoized_unary",
    "MemoizedOptimizedUnary": "memoized_unary",
    "Loloha": "loloha",
    "DBitFlip": "d_bit_flip",
    "MultiHotUnary": "multi_hot_unary",
    "PaddingAndSampling": "padding_and_sampling",
    "NumberGrid": "number_grid",
    "OneBitMean": "one_bit_mean",
    "Piecewise": "piecewise",
    "DiscreteLaplace": "discrete_laplace",
    "SquareWave": "square_wave",
    "HierarchicalHistogram": "hierarchical_histogram",
    "Rappor": "rappor",
    "CountMeanSketch": "count_mean_sketch",
    "HadamardCountMeanSketch": "hadamard_count_mean_sketch",
}
"""Which module of this package a class is in; base classes are there too."""

_NAMES: Mapping[str, str] = {
    "randomized_response": "RandomizedResponse",
    "generalized_randomized_response": "GeneralizedRandomizedResponse",
    "symmetric_unary": "SymmetricUnary",
    "optimized_unary": "OptimizedUnary",
    "subset_selection": "SubsetSelection",
    "optimized_local_hashing": "OptimizedLocalHashing",
    "binary_local_hashing": "BinaryLocalHashing",
    "hadamard_response": "HadamardResponse",
    "block_hadamard_response": "BlockHadamardResponse",
    "exponential": "Exponential",
    "memoized_generalized_randomized_response": "MemoizedGeneralizedRandomizedResponse",
    "memoized_symmetric_unary": "MemoizedSymmetricUnary",
    "memoized_optimized_unary": "MemoizedOptimizedUnary",
    "loloha": "Loloha",
    "d_bit_flip": "DBitFlip",
    "multi_hot_unary": "MultiHotUnary",
    "padding_and_sampling": "PaddingAndSampling",
    "one_bit_mean": "OneBitMean",
    "piecewise": "Piecewise",
    "discrete_laplace": "DiscreteLaplace",
    "square_wave": "SquareWave",
    "hierarchical_histogram": "HierarchicalHistogram",
    "rappor": "Rappor",
    "count_mean_sketch": "CountMeanSketch",
    "hadamard_count_mean_sketch": "HadamardCountMeanSketch",
}


def load_class(name: str) -> type[Mechanism]:
    """Return a class of `CLASSES`, loading its module if it is not."""
    found: type[Mechanism] = getattr(import_module(f"{__package__}.{CLASSES[name]}"), name)
    return found


class _Catalogue(Mapping[str, type[Mechanism]]):
    def __getitem__(self, name: str) -> type[Mechanism]:
        return load_class(_NAMES[name])

    def __contains__(self, name: object) -> bool:
        return name in _NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


CATALOGUE = _Catalogue()
"""Mechanisms by the name that stands in files and on the wire."""

MEMOIZED: Mapping[str, str] = {
    "randomized_response": "memoized_generalized_randomized_response",
    "generalized_randomized_response": "memoized_generalized_randomized_response",
    "symmetric_unary": "memoized_symmetric_unary",
    "optimized_unary": "memoized_optimized_unary",
}
"""Names of the two-stage forms that `memoize` selects, by the names of what they remember."""
