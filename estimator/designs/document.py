"""A survey's figures as a JSON document, and as rows for a spreadsheet."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from fractions import Fraction

from estimator.designs.analysis import Analysis, Group, Request, parameters_of
from estimator.designs.base import Design
from estimator.designs.difference import Difference
from estimator.designs.linear import Ends, Figure
from estimator.designs.logistic import Coefficient
from estimator.designs.several_answers import SeveralAnswers
from estimator.designs.unrelated_unknown import UnrelatedUnknown

ROW = (
    "part",
    "name",
    "n",
    "estimate",
    "standard_error",
    "low",
    "high",
    "normal_low",
    "normal_high",
    "chi_square",
    "p_value",
    "verdict",
)
"""Columns of `rows`. The p_value of an estimate is that of one as far outside 0..1, if it is."""
_CELLS_NAMED = 6


def document(analysis: Analysis, request: Request) -> dict[str, object]:
    """Return all that is known; numbers that do not exist are None, an infinite epsilon, too."""
    result: dict[str, object] = {
        "design": analysis.designs[0].name,
        "paper": analysis.designs[0].paper,
        "parameters": [parameters_of(design) for design in analysis.designs],
        "epsilon": analysis.epsilon if math.isfinite(analysis.epsilon) else None,
        "epsilon_in_words": epsilon_in_words(analysis),
        "n": analysis.n,
        "blank": analysis.blank,
        "refused": analysis.refused,
        "effective_n": analysis.effective,
        "level": request.level,
        "divisor": "n" if analysis.cells else request.divisor,
        "population": analysis.population,
        "finite_population": analysis.finite,
        "figures": [_figure(figure, analysis.population) for figure in analysis.figures],
    }
    if analysis.agreement:
        result["agreement"] = {
            "what": analysis.agreement.what,
            "chi_square": analysis.agreement.chi_square,
            "degrees": analysis.agreement.degrees,
            "p_value": analysis.agreement.p_value,
            "misfit": analysis.agreement.misfit,
        }
    if analysis.groups:
        first = analysis.groups[0].name
        result["by"] = analysis.by
        result["groups"] = [
            {"name": group.name, "n": group.n, "figures": [_figure(f, None) for f in group.figures]}
            for group in analysis.groups
        ]
        result["differences"] = [
            {"of": group.name, "to": first, **_difference(difference)}
            for group, difference in analysis.differences
        ]
        result["homogeneity"] = [vars(test) for test in analysis.homogeneity]
    if analysis.fit:
        result["regression"] = {
            "n": analysis.fit.n,
            "weighted": analysis.fit.weighted,
            "higher_without_end": analysis.fit.higher,
            "log_likelihood": analysis.fit.log_likelihood,
            "coefficients": [_coefficient(each) for each in analysis.fit.coefficients],
            "honesty": analysis.fit.honesty and _coefficient(analysis.fit.honesty),
            "tests": [vars(test) for test in analysis.fit.tests],
        }
    return result


def epsilon_in_words(analysis: Analysis) -> str:
    """Say what one report reveals at most."""
    if math.isfinite(analysis.epsilon):
        factor = math.exp(analysis.epsilon)
        return f"epsilon {analysis.epsilon:.4f}: a report moves the odds {factor:.3g}-fold at most"
    design = analysis.designs[0]
    if isinstance(design, UnrelatedUnknown):
        return "epsilon depends on the harmless question's rate" + _at_rate(design, analysis)
    proofs = dict.fromkeys(proof for each in analysis.designs for proof in each.proofs)
    return "epsilon infinite: " + "; ".join(proofs)


def _at_rate(design: UnrelatedUnknown, analysis: Analysis) -> str:
    rate = analysis.figures[1].estimate
    if not 0 < rate < 1:
        return ", which is estimated outside 0..1: no bound"
    worst = max(each.epsilon for each in design.at(rate))
    return f"; at the estimated one it is {worst:.4f}"


def rows(analysis: Analysis) -> Iterator[tuple[object, ...]]:
    """Yield a row of `ROW` for each number that has an error, or a test."""
    for figure in analysis.figures:
        yield _row("estimate", figure.name, analysis.n, figure)
    if analysis.agreement:
        both = analysis.agreement
        yield ("agreement", both.what, analysis.n, *[None] * 6, both.chi_square, both.p_value, None)
    for group in analysis.groups:
        for figure in group.figures:
            yield _row(f"{analysis.by}={group.name}", figure.name, group.n, figure)
    for group, each in analysis.differences:
        low, high = each.interval or (None, None)
        yield (
            "difference",
            compared(analysis, group, each),
            analysis.groups[0].n + group.n,
            each.estimate,
            each.standard_error,
            low,
            high,
            *each.normal,
            None,
            each.p_value,
            None,
        )
    for test in analysis.homogeneity:
        yield (
            "homogeneity",
            test.name,
            analysis.n,
            *[None] * 6,
            test.chi_square,
            test.p_value,
            None,
        )
    if analysis.fit:
        n = analysis.fit.n
        every = [
            *analysis.fit.coefficients,
            *([analysis.fit.honesty] if analysis.fit.honesty else []),
        ]
        for own in every:
            numbers = (own.estimate, own.standard_error, None, None, *own.interval)
            yield ("coefficient", own.label, n, *numbers, None, own.p_value, None)
        for ratio in analysis.fit.tests:
            yield (
                "wald" if analysis.fit.weighted else "likelihood ratio",
                ratio.name,
                n,
                *[None] * 6,
                ratio.chi_square,
                ratio.p_value,
                None,
            )


def compared(analysis: Analysis, group: Group, own: Difference) -> str:
    """Return which groups a difference compares; of several figures, which one as well."""
    label = f"{group.name} - {analysis.groups[0].name}"
    return f"{own.name}: {label}" if len({d.name for _, d in analysis.differences}) > 1 else label


def _row(part: str, name: str, n: int, figure: Figure) -> tuple[object, ...]:
    low, high = figure.interval or (None, None)
    numbers = (figure.estimate, figure.standard_error, low, high, *figure.normal)
    return (part, name, n, *numbers, None, figure.verdict.probability, figure.verdict.kind)


def _figure(figure: Figure, population: int | None) -> dict[str, object]:
    own: dict[str, object] = {
        "name": figure.name,
        "estimate": figure.estimate,
        "standard_error": figure.standard_error,
        "interval": _ends(figure.interval),
        "normal_interval": _ends(figure.normal),
        "verdict": figure.verdict.kind,
        "probability_at_border": figure.verdict.probability,
        "in_words": figure.verdict.words or None,
    }
    if population is not None:
        best = figure.interval or figure.normal
        own["people"] = round(figure.estimate * population)
        own["people_interval"] = [round(end * population) for end in best]
    return own


def _ends(ends: Ends | None) -> list[float] | None:
    return None if ends is None else [*ends]


def _difference(own: Difference) -> dict[str, object]:
    return {
        "figure": own.name,
        "estimate": own.estimate,
        "standard_error": own.standard_error,
        "interval": _ends(own.interval),
        "normal_interval": _ends(own.normal),
        "p_value": own.p_value,
    }


def _coefficient(own: Coefficient) -> dict[str, object]:
    return {
        "name": own.label,
        "estimate": own.estimate,
        "standard_error": own.standard_error,
        "normal_interval": _ends(own.interval),
        "p_value": own.p_value,
    }


def named(designs: Sequence[Design]) -> str:
    """Return a design with its parameters, for people; of cells, with all values of each."""
    first = designs[0]
    if isinstance(first, SeveralAnswers):
        return f"{first.name} of {len(first.truths)} answers"
    told = [first.name]
    for each in fields(first):
        values = dict.fromkeys(_plain(getattr(design, each.name)) for design in designs)
        few = [*values][:_CELLS_NAMED] + ["..."] * (len(values) > _CELLS_NAMED)
        told.append(f"{each.name} = {' | '.join(few)}")
    return "  ".join(told)


def _plain(value: Fraction | int) -> str:
    """Return a number as people write it: short decimals as such, else a fraction."""
    decimal = f"{float(value):.6g}"
    return decimal if Fraction(decimal) == value else str(value)
