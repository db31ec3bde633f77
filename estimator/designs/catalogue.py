"""Designs by name, and from the parameters that files and options give them."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from fractions import Fraction

from estimator.designs.base import Design, DesignError
from estimator.designs.crosswise import Crosswise
from estimator.designs.direct import Direct
from estimator.designs.forced import ForcedResponse
from estimator.designs.item_count import ItemCount
from estimator.designs.kuk import Kuk, KukDraws
from estimator.designs.lie_detector import StochasticLieDetector
from estimator.designs.mangat import Mangat
from estimator.designs.several_answers import SeveralAnswers
from estimator.designs.triangular import Triangular
from estimator.designs.two_coins import TwoCoins
from estimator.designs.unrelated import UnrelatedQuestion
from estimator.designs.unrelated_unknown import UnrelatedUnknown
from estimator.designs.warner import Warner

CATALOGUE: dict[str, type[Design]] = {
    design.name: design
    for design in (
        Direct,
        Warner,
        TwoCoins,
        ForcedResponse,
        UnrelatedQuestion,
        UnrelatedUnknown,
        Mangat,
        Kuk,
        KukDraws,
        Crosswise,
        Triangular,
        StochasticLieDetector,
        ItemCount,
        SeveralAnswers,
    )
}

_BY_TRUTH = ("truth", "yes_if_forced")
_OF_MATRIX = ("answers", "matrix", "reports", "truth")


def parameters(name: str) -> tuple[str, ...]:
    """Return all parameters that a design may be given."""
    if name == SeveralAnswers.name:
        return _OF_MATRIX
    own = tuple(field.name for field in fields(_known(name)))
    return own + _BY_TRUTH if name == ForcedResponse.name else own


def all_parameters() -> tuple[str, ...]:
    """Return the parameters of all designs, each once."""
    return tuple(dict.fromkeys(key for name in CATALOGUE for key in parameters(name)))


def design(name: str, given: Mapping[str, object]) -> Design:
    """Make a design of its parameters.

    Args:
        name: Of the design.
        given: Probabilities as numbers or texts ("1/6"); for "matrix" answers as a list or a text
            with commas, and the matrix as lists or as a text with ";" between rows.

    Raises:
        DesignError: A parameter is unknown, missing, or breaks a rule.
    """
    kind = _known(name)
    for key in given:
        if key not in parameters(name):
            raise DesignError(
                f"{name} has no parameter {key!r}, only {', '.join(parameters(name)) or 'none'}"
            )
    if kind is SeveralAnswers:
        return _several(given)
    if kind is ForcedResponse and set(given) & set(_BY_TRUTH):
        if set(given) != set(_BY_TRUTH):
            raise DesignError(
                "forced takes either forced_yes and forced_no, or truth and yes_if_forced"
            )
        return ForcedResponse.by_truth(_number(given["truth"]), _number(given["yes_if_forced"]))
    missing = [f.name for f in fields(kind) if f.default is MISSING and f.name not in given]
    if missing:
        raise DesignError(f"{name} needs {' and '.join(missing)}")
    whole = {field.name for field in fields(kind) if field.type is int}
    return kind(**{
        key: _whole(key, value) if key in whole else _number(value) for key, value in given.items()
    })  # fmt: skip


def _known(name: str) -> type[Design]:
    if name not in CATALOGUE:
        raise DesignError(f"design must be one of {', '.join(CATALOGUE)}, got {name!r}")
    return CATALOGUE[name]


def _number(value: object) -> Fraction | float | str:
    if isinstance(value, bool) or not isinstance(value, Fraction | float | int | str):
        raise DesignError(f"a probability must be a number or a text, got {value!r}")
    return value


def _whole(name: str, value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise DesignError(f"{name} must be a whole number, got {value!r}") from None


def _several(given: Mapping[str, object]) -> SeveralAnswers:
    if "answers" not in given or ("matrix" in given) == ("truth" in given):
        raise DesignError("matrix needs answers, and either matrix or truth")
    answers = _names("answers", given["answers"])
    if "truth" in given:
        return SeveralAnswers.telling_truth(answers, _number(given["truth"]))
    rows = given["matrix"]
    if isinstance(rows, str):
        rows = [row.split() for row in rows.split(";")]
    if not isinstance(rows, Sequence) or any(
        isinstance(row, str) or not isinstance(row, Sequence) for row in rows
    ):
        raise DesignError("matrix must be a list of rows")
    named = _names("reports", given["reports"]) if "reports" in given else ()
    return SeveralAnswers(answers, tuple(tuple(row) for row in rows), named)


def _names(key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(","))
    if isinstance(value, Sequence) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise DesignError(f"{key} must be a list of names")
