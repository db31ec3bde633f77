"""One survey from its table to its figures: what `sottovoce survey estimate` prints.

Everything is decided by what the table holds: cells where parameters vary, strata where there is
such a column, weights where there are weights. Where each stratum has its own parameters (one was
asked on paper, one in a browser) each is inverted by its own. What does not go together is refused
with the reason.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction

from estimator.designs.agreement import Agreement, agreement
from estimator.designs.answers import Answer, Reading, gather
from estimator.designs.base import Design, DesignError, YesNo
from estimator.designs.cells import Cell, estimate_cells
from estimator.designs.difference import Difference, Homogeneity, difference, homogeneity
from estimator.designs.explained import regression
from estimator.designs.linear import Divisor, Figure, Stratum, estimate
from estimator.designs.logistic import Fit
from estimator.designs.sample import Sample
from estimator.designs.several_answers import SeveralAnswers
from estimator.designs.table import Table
from estimator.errors import DocumentError, NoReports
from estimator.uncertainty import Method

_AS_WEIGHTS = (
    "rename the column, and give each respondent the people of the stratum over its answers as "
    "weight"
)


@dataclass(frozen=True)
class Request:
    """What is asked of a table.

    Attributes:
        reading: How to read it.
        level: Of intervals, in (0, 1).
        divisor: Of variances: "n-1", or "n" as some papers have it.
        method: Of the intervals that are mapped: "wilson" or "clopper_pearson".
        population: People in the population; None if it is large or unknown.
        strata: People in each stratum.
        by: Column whose groups are compared; None for no comparison.
        covariates: Columns that explain the answer.
    """

    reading: Reading
    level: float = 0.95
    divisor: Divisor = "n-1"
    method: Method = "wilson"
    population: int | None = None
    strata: Mapping[str, int] = field(default_factory=dict)
    by: str | None = None
    covariates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """One group's answers and figures."""

    name: str
    n: int
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Analysis:
    """All that a table says.

    Attributes:
        designs: One, or one for each cell, or for strata that differ in it.
        cells: Whether one share was sought over several designs.
        n: Answers used.
        blank: Rows without an answer.
        refused: Respondents who refused.
        effective: Kish's effective number of answers, where there are weights.
        finite: Whether errors are corrected for a finite population.
        population: Its size, where known.
        figures: Over everybody.
        agreement: Whether answers fit together; None where nothing can be tested.
        by: Which column the groups come from.
        groups: Compared, in alphabetical order; empty without comparison.
        differences: Of each group's figures, after the group, to those of the first group: all
            figures of several answers, of other designs the share.
        homogeneity: Whether all groups may have one share; one for each figure compared, but for
            those that have no error in some group.
        fit: The regression; None without covariates.
    """

    designs: tuple[Design, ...]
    cells: bool
    n: int
    blank: int
    refused: int
    effective: float | None
    finite: bool
    population: int | None
    figures: tuple[Figure, ...]
    agreement: Agreement | None = None
    by: str | None = None
    groups: tuple[Group, ...] = ()
    differences: tuple[tuple[Group, Difference], ...] = ()
    homogeneity: tuple[Homogeneity, ...] = ()
    fit: Fit | None = None

    @property
    def epsilon(self) -> float:
        """The worst of all cells."""
        return max(design.epsilon for design in self.designs)


def analyse(table: Table, request: Request) -> Analysis:
    """Estimate all that is asked for.

    Raises:
        BadRows: Some rows break rules.
        DesignError: The design is invalid, or parts of the request do not go together.
        DocumentError: A column is missing, or a number is out of range.
        NoReports: Nobody answered.
    """
    if not 0 < request.level < 1:
        raise DocumentError("level", "must be between 0 and 1", request.level)
    if request.population is not None and request.population < 1:
        raise DocumentError("population", "must be at least 1", request.population)
    for name, size in request.strata.items():
        if size < 1:
            raise DocumentError(f"stratum {name}", "must have at least 1 person", size)
    everybody = gather(table, request.reading)
    answers = [answer for answer in everybody if answer.report is not None and answer.count]
    if not answers:
        raise NoReports("nobody answered: there is no estimate, which is not one of zero")
    designs = tuple(dict.fromkeys(answer.design for answer in answers))
    cells = len(designs) > 1 and not any(answer.stratum for answer in answers)
    _check(answers, designs, cells, request)
    names = sorted({answer.stratum for answer in answers})
    missing = sorted(set(request.strata) - set(names))
    if missing:
        raise NoReports(f"nobody answered in stratum {missing[0]!r}: combine it with another")
    sizes = {"": request.population} if names == [""] else dict(request.strata)
    finite = all(sizes.get(name) for name in names)
    agreed = None
    if cells:
        figure, agreed = _over_cells(answers, request)
        figures: tuple[Figure, ...] = (figure,)
    else:
        figures = _figures(answers, sizes, finite, request)
        if names == [""]:
            agreed = agreement(designs[0], _samples(answers, designs[0], ""))
    groups, differences, judged = _compared(answers, request)
    known = [size for size in sizes.values() if size]
    weights = [(answer.weight, answer.count) for answer in answers if answer.weight]
    return Analysis(
        designs,
        cells,
        _number(answers),
        _number(a for a in everybody if a.report is None and not a.refused),
        _number(a for a in everybody if a.refused),
        _kish(weights) if weights else None,
        finite,
        sum(known) if len(known) == len(names) else None,
        figures,
        agreed,
        request.by,
        groups,
        differences,
        judged,
        _explained(answers, request),
    )


def _number(answers: Iterable[Answer]) -> int:
    return sum(answer.count for answer in answers)


def _kish(weights: Sequence[tuple[float, int]]) -> float:
    most = max(w for w, _ in weights)
    return sum(w / most * n for w, n in weights) ** 2 / sum((w / most) ** 2 * n for w, n in weights)


def _check(
    answers: Sequence[Answer], designs: Sequence[Design], cells: bool, request: Request
) -> None:
    weighted = any(answer.weight is not None for answer in answers)
    stratified = any(answer.stratum for answer in answers)
    rules = {
        "several parameters (cells) and weights": cells and weighted,
        "several parameters (cells) within a stratum": stratified
        and len({(answer.stratum, answer.design) for answer in answers})
        > len({answer.stratum for answer in answers}),
        "several parameters (cells) and a finite population": cells
        and request.population is not None,
        "several parameters (cells) and Clopper and Pearson's intervals": cells
        and request.method != "wilson",
        "strata and a population without strata": stratified and request.population is not None,
        f"groups to compare and strata: {_AS_WEIGHTS}": request.by is not None and stratified,
        f"covariates and strata: {_AS_WEIGHTS}": bool(request.covariates) and stratified,
    }
    for what, broken in rules.items():
        if broken:
            raise DesignError(f"there is no estimator here for {what}")
    if cells and not all(isinstance(design, YesNo) for design in designs):
        raise DesignError(
            f"{designs[0].name} takes one set of parameters for all respondents, or one for each "
            "stratum; columns of parameters are for designs with one sample and two reports"
        )


def _samples(answers: Sequence[Answer], design: Design, name: str) -> tuple[Sample, ...]:
    samples = []
    for position, named in enumerate(design.samples):
        own = [answer for answer in answers if answer.sample == position]
        if not own:
            raise NoReports(f"nobody answered in sample {named}{f' of {name}' if name else ''}")
        kinds = len(design.reports(position))
        if any(answer.weight is not None for answer in own):
            samples.append(
                Sample.of_rows(
                    [answer.report or 0 for answer in own],
                    [answer.weight or 0.0 for answer in own],
                    kinds,
                    [answer.count for answer in own],
                )
            )
        else:
            counts = [0] * kinds
            for answer in own:
                counts[answer.report or 0] += answer.count
            samples.append(Sample.of_counts(counts))
    return tuple(samples)


def _figures(
    answers: Sequence[Answer],
    sizes: Mapping[str, int | None],
    finite: bool,
    request: Request,
) -> tuple[Figure, ...]:
    strata = []
    for name in sorted({answer.stratum for answer in answers}):
        own = [answer for answer in answers if answer.stratum == name]
        design, size = own[0].design, sizes.get(name)
        strata.append(Stratum(_samples(own, design, name), size, name or "all", design))
    return estimate(
        answers[0].design,
        strata,
        level=request.level,
        divisor=request.divisor,
        finite=finite,
        method=request.method,
    )


def _over_cells(answers: Sequence[Answer], request: Request) -> tuple[Figure, Agreement | None]:
    counts: dict[YesNo, list[int]] = {}
    for answer in answers:
        if isinstance(answer.design, YesNo):
            counts.setdefault(answer.design, [0, 0])[answer.report or 0] += answer.count
    cells = [Cell(design, sum(both), both[1]) for design, both in counts.items()]
    return estimate_cells(cells, level=request.level)


def _compared(
    answers: Sequence[Answer], request: Request
) -> tuple[tuple[Group, ...], tuple[tuple[Group, Difference], ...], tuple[Homogeneity, ...]]:
    if request.by is None:
        return (), (), ()
    place = request.reading.others.index(request.by)
    names = sorted({answer.others[place] for answer in answers})
    if len(names) < 2:
        raise DocumentError(request.by, "must have two groups to compare", len(names))
    groups = []
    for name in names:
        own = [answer for answer in answers if answer.others[place] == name]
        if len({answer.design for answer in own}) > 1:
            figures: tuple[Figure, ...] = (_over_cells(own, request)[0],)
        else:
            figures = _figures(own, {}, False, request)
        groups.append(Group(name, _number(own), figures))
    several = isinstance(answers[0].design, SeveralAnswers)
    compared = range(len(groups[0].figures) if several else 1)
    differences = tuple(
        (group, difference(group.figures[place], groups[0].figures[place], level=request.level))
        for group in groups[1:]
        for place in compared
    )
    tests = [homogeneity([group.figures[place] for group in groups]) for place in compared]
    return tuple(groups), differences, tuple(test for test in tests if test is not None)


def _explained(answers: Sequence[Answer], request: Request) -> Fit | None:
    if not request.covariates:
        return None
    places = [request.reading.others.index(name) for name in request.covariates]
    return regression(answers, request.covariates, places, request.level)


def parameters_of(design: Design) -> dict[str, object]:
    """Return a design's parameters as texts: exact fractions."""
    return {each.name: _shown(getattr(design, each.name)) for each in fields(design)}


def _shown(value: object) -> object:
    if isinstance(value, tuple):
        return [_shown(part) for part in value]
    return str(value) if isinstance(value, Fraction) else value
