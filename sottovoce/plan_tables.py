"""A plan as people read it in the terminal: tables, sentences, and a plot."""

from collections.abc import Callable, Sequence

import plotext

from estimator.planning.curves import Curve, Over
from estimator.planning.inverse import Needed
from estimator.planning.of_file import Planned
from estimator.planning.question import Question
from estimator.planning.ranking import Choice, Ranking
from estimator.planning.spending import Lifetime, Spread
from estimator.planning.verdict import Verdict
from sottovoce.table import table

_MARKERS = ("braille", "+", "x", "o", "*", "#")
_ANSWERS = {True: "yes", False: "no", None: "unknown"}
_WIDTH, _HEIGHT = 90, 22


def asked(question: Question) -> str:
    """Return what is asked, shortly."""
    if question.type == "boolean":
        return "yes/no"
    if question.type == "multi_select":
        return f"up to {question.most or question.listed} of {question.listed} options"
    if question.type == "number":
        cut = f" in {question.buckets} buckets" if question.buckets else ""
        return f"a number{cut}"
    if question.type == "string":
        return f"strings, {question.listed} candidates"
    return f"one of {question.listed} values"


def title(question: Question, over: Over) -> str:
    """Return what a chart says of itself: the question, and what stays the same in it."""
    fixed = {
        "devices": f"epsilon {question.epsilon.normalize():f}",
        "epsilon": f"{question.devices:,} devices",
    }
    return f"{asked(question)}, {fixed[over]}"


def of_question(ranking: Ranking, verdict: Verdict) -> str:
    """Return the whole answer to what was asked."""
    question = ranking.question
    of_devices = "" if question.inclusion == 1 else f" of {question.devices:,} devices"
    each = "once" if question.epoch == "once" else f"a {question.epoch}"
    lines = [
        f"{asked(question)}, epsilon {question.epsilon.normalize():f}, "
        f"{question.reports:,.0f} reports{of_devices} {each}",
        "",
    ]
    columns = _columns(ranking)
    rows = [tuple(cell(choice) for _, cell in columns) for choice in ranking.choices]
    if rows:
        lines += [table([name for name, _ in columns], rows), _legend(question, ranking)]
    lines += ["", *_default_lines(ranking), _verdict_line(verdict)]
    lines += [f"  would help: {each}" for each in verdict.helps]
    for choice in ranking.choices:
        lines += _solved(choice)
    lines += [f"{name} cannot: {why}" for name, why in ranking.refused.items()]
    return "\n".join(lines)


def _columns(ranking: Ranking) -> list[tuple[str, Callable[[Choice], str]]]:
    """Return the columns that say something about this question, and what stands in them."""
    columns: list[tuple[str, Callable[[Choice], str]]] = [
        ("mechanism", _named),
        ("epsilon", lambda choice: f"{choice.figures.epsilon:.4f}"),
        ("permanent", _permanent),
        ("rare", lambda choice: _part(choice.figures.rare_error)),
        ("common", lambda choice: _part(choice.figures.common_error)),
        ("present", lambda choice: _part(choice.figures.decision_level)),
        ("visible", _visible),
        ("interval", lambda choice: _part(choice.figures.interval_width)),
        ("together", lambda choice: _part(choice.figures.simultaneous_width)),
        ("range", lambda choice: _part(choice.figures.range_error)),
        ("averaged", lambda choice: _part(choice.figures.averaged_error)),
        ("fakes", lambda choice: _part(choice.figures.worst_shift)),
        ("bits", lambda choice: str(choice.figures.bits)),
        ("bytes", lambda choice: str(choice.figures.bytes)),
        ("counters", lambda choice: str(choice.figures.counters)),
    ]
    return [
        (name, cell)
        for name, cell in columns
        if name not in _SOMETIMES or any(cell(each) != "-" for each in ranking.choices)
    ]


_SOMETIMES = ("permanent", "range", "averaged")


def _permanent(choice: Choice) -> str:
    permanent = choice.figures.epsilon_permanent
    return "-" if permanent is None else f"{permanent:.4f}"


def _named(choice: Choice) -> str:
    return choice.name + (" (mean)" if choice.figures.of == "mean" else "")


def _visible(choice: Choice) -> str:
    limit = choice.figures.detection_limit
    if choice.law is None:
        return "-"
    return "nothing" if limit is None else _part(limit)


def _part(part: float | None) -> str:
    """Print a part of 1 in per cent, three digits; nothing is worth saying beyond all of it."""
    if part is None:
        return "-"
    if part > 1:
        return "> 100 %"
    return f"{float(f'{100 * part:.3g}'):g} %"


def _legend(question: Question, ranking: Ranking) -> str:
    figures = [choice.figures for choice in ranking.choices]
    level = _part(question.level)
    lines = [
        f"rare, common  standard error of a share of 0 and of {_part(question.common)}, about the "
        "population",
        f"present       an estimate above it is called present, over all values together ({level})",
        "visible       smallest share that is called so in 95 of 100 epochs",
        f"interval      width of the {level} interval of a rare value; together: all of them hold",
    ]
    if any(found.range_error is not None for found in figures):
        lines.append("range         largest standard error of the share of all below a value")
    if any(found.averaged_error is not None for found in figures):
        lines.append("averaged      what the average of many epochs comes down to")
    lines += [
        "fakes         the most by which 1 % of fake reports move a share",
        "bits, bytes   of a response and its cohort; of a report on the wire; counters: of a tally",
    ]
    if question.type == "string":
        lines.append("strings       five unlisted strings of 1 % each are supposed to be held")
    if any(found.of == "mean" for found in figures):
        lines.append(
            "(mean)        parts of the range: the worst error, that of numbers all in its middle, "
            "and\n              what shows against a known mean"
        )
    return "\n".join(lines)


def _default_lines(ranking: Ranking) -> list[str]:
    default, best = ranking.default, ranking.best
    if ranking.question.mechanism is not None or best is None:
        return []
    if default is None:
        return [f"no default: a file must name the mechanism; most exact: {best.name}"]
    if default.figures.of != best.figures.of or ranking.gain is None:
        return [f"by default: {default.name}"]
    if ranking.gain < 1.0005:
        return [f"by default: {default.name}; nothing is more exact for rare values"]
    shape = ", shaped as above," if default.name == best.name else ""
    return [
        f"by default: {default.name}; {best.name}{shape} errs "
        f"{100 * (1 - 1 / ranking.gain):.2g} % less for rare values"
    ]


def _verdict_line(verdict: Verdict) -> str:
    start = {True: "answer", False: "no answer", None: "unknown"}[verdict.answers]
    return f"{start}: {verdict.text}" + (
        "" if verdict.mechanism is None else f" ({verdict.mechanism})"
    )


def _solved(choice: Choice) -> list[str]:
    options = choice.figures.options
    lines = []
    if options:
        said = ", ".join(f"{name} = {value:.6g}" for name, value in options.items())
        lines.append(f"{choice.name}: {said}")
    return lines + [f"{choice.name}: {note}" for note in choice.notes]


def of_needed(rows: Sequence[Needed]) -> str:
    """Return what each mechanism needs for a target."""
    header = ("for the target", "devices, same epsilon", "epsilon, same devices")
    return table(
        header,
        [
            (
                row.mechanism,
                "no number" if row.devices is None else f"{row.devices:,}",
                "none" if row.epsilon is None else f"{row.epsilon.normalize():f}",
            )
            for row in rows
        ],
    )


def of_spreading(lasts: Lifetime, rows: Sequence[Spread], question: Question) -> str:
    """Return how long a budget lasts, and what `every` makes of it."""
    unit = question.epoch
    if lasts.reports is None:
        head = f"the budget pays for all reports ever: {lasts.charge:g} epsilon are reserved once"
    elif not lasts.reports:
        head = f"the budget pays for no report: one costs {lasts.charge:g} epsilon"
    elif unit == "once":
        head = f"the budget pays for the one report, {lasts.charge:g} epsilon"
    else:
        head = f"the budget pays for {lasts.reports} reports, over {lasts.epochs} {unit}s"
    header = ("every", "reports", "rare", "visible", "epsilon a year", "lasts")
    body = [
        (
            str(row.every),
            f"{row.reports:,.0f}",
            _part(row.error),
            "nothing" if row.detection_limit is None else _part(row.detection_limit),
            f"{row.yearly:g}",
            "-" if row.lasts_days is None else _time(row.lasts_days),
        )
        for row in rows
    ]
    return head + "\n" + table(header, body)


def _time(days: float) -> str:
    return f"{days:,.0f} days" if days < 730 else f"{days / 365.2425:.1f} years"


def of_file(rows: Sequence[Planned], devices: int) -> str:
    """Return a plan of each metric of a file."""
    header = ("metric", "mechanism", "reports", "rare", "common", "visible", "answer")
    body = []
    said = []
    for row in rows:
        if row.choice is None:
            body.append((row.metric, "-", "-", "-", "-", "-", "no"))
        else:
            found = row.choice.figures
            body.append(
                (
                    row.metric,
                    found.mechanism,
                    f"{found.n:,.0f}",
                    _part(found.rare_error),
                    _part(found.common_error),
                    _visible(row.choice),
                    _ANSWERS[row.verdict.answers],
                )
            )
        said.append(f"{row.metric}: {row.verdict.text}")
        said += [f"  would help: {each}" for each in row.verdict.helps]
        if row.better is not None and row.gain is not None:
            said.append(f"  {row.better} would err {100 * (1 - 1 / row.gain):.2g} % less")
        said += [
            f"  {note}" for note in (row.choice.notes if row.choice and row.choice.law else ())
        ]
    return "\n".join([f"{devices:,} devices", table(header, body, left=2), "", *said])


def plot(lines: Sequence[Curve], over: Over) -> str:
    """Return a plot of errors for the terminal, both axes logarithmic, without colours."""
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(_WIDTH, _HEIGHT)
    plotext.xscale("log")
    plotext.yscale("log")
    plotext.title("standard error, in per cent")
    plotext.xlabel(over)
    for line, marker in zip(lines, _MARKERS, strict=False):
        at, errors = zip(*line.points, strict=True)
        plotext.plot(at, [100 * error for error in errors], label=line.mechanism, marker=marker)
    return str(plotext.uncolorize(plotext.build())).rstrip()
