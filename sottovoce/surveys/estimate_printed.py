"""A paper survey's figures, printed for people."""

from collections.abc import Sequence
from math import exp
from textwrap import fill

from estimator.designs.analysis import Analysis, Request
from estimator.designs.document import compared, epsilon_in_words, named
from estimator.designs.linear import Ends, Figure
from sottovoce.table import percent, table

_ALIKE = (
    "A standard error of 0 is no certainty: all answers were alike, and then the formula gives 0 "
    "for however few of them. The normal interval and tests by it mean nothing here."
)


_HIGHER = (
    "Careful: the likelihood is higher still where coefficients grow without end. There are too "
    "few answers for so many covariates and so much noise: errors and tests are not to be trusted."
)


def print_analysis(analysis: Analysis, request: Request) -> None:
    """Print design, epsilon, non-response, figures, and what they mean."""
    print(named(analysis.designs))
    print(_wrapped(analysis.designs[0].paper))
    print(_wrapped(epsilon_in_words(analysis)))
    print(
        f"{analysis.n} answers, {analysis.blank} blank, {analysis.refused} refused"
        + (
            f"; weighted, worth {analysis.effective:.1f} unweighted ones"
            if analysis.effective
            else ""
        )
    )
    if analysis.blank or analysis.refused:
        print("Blanks and refusals are not counted as no: whether they differ is not known.")
    print()
    print(_figures(analysis.figures, request, analysis.population))
    _print_words(analysis.figures)
    for ratio, (_, divisor) in analysis.designs[0].ratios.items():
        if ratio not in {figure.name for figure in analysis.figures}:
            print(f"{ratio}: not told, for the {divisor} cannot be told from 0.")
    if any(figure.standard_error == 0 for figure in analysis.figures) and not _whole(analysis):
        print(_wrapped(_ALIKE))
    if analysis.population is not None:
        print(_wrapped(_of_population(analysis, request)))
    if analysis.agreement:
        own = analysis.agreement
        told = (
            "contradict each other: the answers do not fit the design"
            if own.misfit
            else "agree with each other"
        )
        print(
            f"The {own.what} {told} (chi-square {own.chi_square:.2f}, {own.degrees} degrees of "
            f"freedom, p = {_p(own.p_value)})."
        )
    if analysis.groups:
        _print_groups(analysis, request)
    if analysis.fit:
        _print_fit(analysis, request)


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


def _whole(analysis: Analysis) -> bool:
    """Return whether everybody was asked."""
    return analysis.finite and analysis.n == analysis.population


def _of_population(analysis: Analysis, request: Request) -> str:
    what = "Standard errors and normal intervals"
    if not analysis.finite:
        return f"{what} are not corrected for a population of {analysis.population}."
    if len(analysis.designs[0].samples) > 1:
        what += " of the share"
    told = f"{what} are corrected for a population of {analysis.population}"
    if any(figure.interval for figure in analysis.figures):
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


def _print_groups(analysis: Analysis, request: Request) -> None:
    print(f"\nby {analysis.by}")
    for group in analysis.groups:
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
                    compared(analysis, group, each),
                    percent(each.estimate),
                    percent(each.standard_error),
                    _ends(each.interval),
                    _ends(each.normal),
                    _p(each.p_value),
                ]
                for group, each in analysis.differences
            ],
        )
    )
    if len(analysis.groups) > 2:
        print("Each is tested by itself: with many groups, some differ by chance.")
        for test in analysis.homogeneity:
            of = f" ({test.name})" if len(analysis.homogeneity) > 1 else ""
            print(
                f"All alike{of}? chi-square {test.chi_square:.2f}, {test.degrees} degrees of "
                f"freedom, p = {_p(test.p_value)}"
            )


def _print_fit(analysis: Analysis, request: Request) -> None:
    fit = analysis.fit
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
