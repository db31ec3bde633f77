"""A paper survey's figures, printed for people."""

from collections.abc import Sequence
from math import exp
from textwrap import fill

from estimator.designs.document import compared, epsilon_in_words, named
from estimator.designs.linear import Ends, Figure
from estimator.designs.survey import Request, Survey
from sottovoce.table import percent, table

_ALIKE = (
    "A standard error of 0 is no certainty: all answers were alike, and then the formula gives 0 "
    "for however few of them. The normal interval and tests by it mean nothing here."
)


_HIGHER = (
    "Careful: the likelihood is higher still where coefficients grow without end. There are too "
    "few answers for so many covariates and so much noise: errors and tests are not to be trusted."
)


def print_survey(survey: Survey, request: Request) -> None:
    """Print design, epsilon, non-response, figures, and what they mean."""
    print(named(survey.designs))
    print(_wrapped(survey.designs[0].paper))
    print(_wrapped(epsilon_in_words(survey)))
    print(
        f"{survey.n} answers, {survey.blank} blank, {survey.refused} refused"
        + (f"; weighted, worth {survey.effective:.1f} unweighted ones" if survey.effective else "")
    )
    if survey.blank or survey.refused:
        print("Blanks and refusals are not counted as no: whether they differ is not known.")
    print()
    print(_figures(survey.figures, request, survey.population))
    _print_words(survey.figures)
    for ratio, (_, divisor) in survey.designs[0].ratios.items():
        if ratio not in {figure.name for figure in survey.figures}:
            print(f"{ratio}: not told, for the {divisor} cannot be told from 0.")
    if any(figure.standard_error == 0 for figure in survey.figures) and not _whole(survey):
        print(_wrapped(_ALIKE))
    if survey.population is not None:
        print(_wrapped(_of_population(survey, request)))
    if survey.agreement:
        own = survey.agreement
        told = (
            "contradict each other: the answers do not fit the design"
            if own.misfit
            else "agree with each other"
        )
        print(
            f"The {own.what} {told} (chi-square {own.chi_square:.2f}, {own.degrees} degrees of "
            f"freedom, p = {_p(own.p_value)})."
        )
    if survey.groups:
        _print_groups(survey, request)
    if survey.fit:
        _print_fit(survey, request)


def _figures(figures: Sequence[Figure], request: Request, population: int | None) -> str:
    level = f"{100 * request.level:g} %"
    kind = "Clopper-Pearson" if request.method == "clopper_pearson" else "Wilson"
    header = ["figure", "estimate", "std. error", f"{level} {kind}", f"{level} normal"]
    if population is not None:
        header += ["people", "interval"]
    lines = []
    for each in figures:
        line = [
            each.name,
            percent(each.estimate),
            percent(each.standard_error),
            _ends(each.interval),
            _ends(each.normal),
        ]
        if population is not None:
            low, high = each.interval or each.normal
            line += [
                f"{each.estimate * population:.0f}",
                f"[{low * population:.0f}, {high * population:.0f}]",
            ]
        lines.append(line)
    return table(header, lines)


def _whole(survey: Survey) -> bool:
    """Return whether everybody was asked."""
    return survey.finite and survey.n == survey.population


def _of_population(survey: Survey, request: Request) -> str:
    what = "Standard errors and normal intervals"
    if not survey.finite:
        return f"{what} are not corrected for a population of {survey.population}."
    if len(survey.designs[0].samples) > 1:
        what += " of the share"
    told = f"{what} are corrected for a population of {survey.population}"
    if any(figure.interval for figure in survey.figures):
        kind = "Clopper-Pearson" if request.method == "clopper_pearson" else "Wilson"
        told += f"; {kind} intervals are not, and are a little too wide"
    return f"{told}."


def _ends(ends: Ends | None) -> str:
    return "-" if ends is None else f"[{100 * ends[0]:.2f}, {100 * ends[1]:.2f}] %"


def _wrapped(text: str) -> str:
    return fill(text, 100, break_on_hyphens=False)


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def _print_words(figures: Sequence[Figure]) -> None:
    for figure in figures:
        if figure.verdict.words:
            print(_wrapped(f"{figure.name}: {figure.verdict.words}"))


def _print_groups(survey: Survey, request: Request) -> None:
    print(f"\nby {survey.by}")
    for group in survey.groups:
        print(f"\n{group.name}: {group.n} answers")
        print(_figures(group.figures, request, None))
        _print_words(group.figures)
    print()
    level = f"{100 * request.level:g} %"
    print(
        table(
            ("difference", "estimate", "std. error", f"{level} Wilson", f"{level} normal", "p"),
            [
                [
                    compared(survey, group, each),
                    percent(each.estimate),
                    percent(each.standard_error),
                    _ends(each.interval),
                    _ends(each.normal),
                    _p(each.p_value),
                ]
                for group, each in survey.differences
            ],
        )
    )
    if len(survey.groups) > 2:
        print("Each is tested by itself: with many groups, some differ by chance.")
        for test in survey.homogeneity:
            of = f" ({test.name})" if len(survey.homogeneity) > 1 else ""
            print(
                f"All alike{of}? chi-square {test.chi_square:.2f}, {test.degrees} degrees of "
                f"freedom, p = {_p(test.p_value)}"
            )


def _print_fit(survey: Survey, request: Request) -> None:
    fit = survey.fit
    if fit is None:
        return
    kind = "weighted log-pseudo-likelihood" if fit.weighted else "log-likelihood"
    print(f"\nlogistic regression of {fit.n} answers, {kind} {fit.log_likelihood:.4f}\n")
    level = f"{100 * request.level:g} %"
    header = ("coefficient", "estimate", "std. error", f"{level} interval", "odds ratio", "p")
    lines = [
        [
            each.label,
            f"{each.estimate:.5f}",
            f"{each.standard_error:.5f}",
            f"[{each.interval[0]:.4f}, {each.interval[1]:.4f}]",
            "-" if each is fit.honesty else f"{exp(each.estimate):.3g}",
            _p(each.p_value),
        ]
        for each in (*fit.coefficients, *([fit.honesty] if fit.honesty else []))
    ]
    print(table(header, lines))
    print()
    if fit.higher:
        print(_wrapped(_HIGHER) + "\n")
    print(
        table(
            (
                "Wald test" if fit.weighted else "likelihood-ratio test",
                "chi-square",
                "degrees",
                "p",
            ),
            [[t.name, f"{t.chi_square:.4f}", f"{t.degrees}", _p(t.p_value)] for t in fit.tests],
        )
    )
