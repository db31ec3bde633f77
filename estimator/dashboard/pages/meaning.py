"""What a number means, in plain words: for the device that reported, and for whoever reads it."""

import math
from collections.abc import Iterator

from estimator.estimates import Estimates
from estimator.releases.caveats import SMOOTHED
from estimator.releases.release import Privacy, Release
from estimator.releases.telling import off_by_fakes

_SUSPICIONS = ((1 / 2, "1 in 2", 100), (1 / 100, "1 in 100", 1_000))
_MANY = 10


def believed(before: float, epsilon: float) -> float:
    """Return the most that a suspicion can become, by Bayes' rule.

    Args:
        before: Probability that somebody gave something about one device, in (0, 1).
        epsilon: Loss of what was seen since: the odds move by a factor of e^epsilon at most.
    """
    # Not by e^epsilon, which may be too large for a float.
    return before / (before + (1 - before) * math.exp(-epsilon))


def odds(epsilon: float) -> str:
    """Return what a loss lets anybody believe about one device."""
    bounds = [_in_whole(believed(before, epsilon), of) for before, _, of in _SUSPICIONS]
    if None in bounds:
        return "any suspicion may become near certainty"
    first, second = (
        f"of {given} becomes at most {bound}"
        for (_, given, _), bound in zip(_SUSPICIONS, bounds, strict=True)
    )
    return f"a suspicion {first}, and one {second}"


def of_the_device(privacy: Privacy, *, once: bool) -> Iterator[str]:
    """Yield what the epsilons of a metric mean for one device; `once`: it reports only once."""
    yield (
        "Whatever somebody believed about one device, one report can move the odds by at most a "
        f"factor of {_factor(privacy.epsilon)} (e to the power of epsilon, {privacy.epsilon:.4g}): "
        f"{odds(privacy.epsilon)}."
    )
    if privacy.epsilon_permanent is None or privacy.distinct_values is None:
        if once:
            return
        yield (
            "A device that reports in several epochs draws new noise for each, so each report "
            "moves the odds again, as far as its lifetime budget allows."
        )
        return
    same = privacy.epsilon_permanent * privacy.distinct_values
    yield (
        "The device remembers its noise. All its reports together, however many, move the odds "
        "between two histories that change at the same times by at most a factor of "
        f"{_factor(same)} (epsilon {same:.4g}: {privacy.epsilon_permanent:.4g} for each of "
        f"{privacy.distinct_values} values): {odds(same)}."
    )
    fresh = privacy.epsilon_instantaneous
    if fresh is None:
        yield "Whether and when its answer changed is not protected at all."
        return
    yield (
        "Whether and when its answer changed is protected less: each report moves those odds by "
        f"up to a factor of {_factor(fresh)} (epsilon {fresh:.4g}), so {_MANY} reports by up to "
        f"{_factor(_MANY * fresh)}: after them {odds(_MANY * fresh)}."
    )


def of_the_figures(release: Release, estimates: Estimates) -> Iterator[str]:
    """Yield what shares and intervals mean for whoever reads them."""
    yield release.caveats[0]
    right = f"{100 * estimates.level:g}"
    if estimates.mean is not None or estimates.quantiles:
        what = "mean" if estimates.mean is not None else "quantile"
        yield (
            f"The interval of a {what} holds the true one in {right} of 100 such cases. That is "
            "about all devices that might have reported, not about the values of single ones."
        )
    if release.range is not None:
        yield (
            "Values outside the range were counted at its ends, and no estimate can undo that: if "
            "many lie outside, the figures are pulled towards the middle."
        )
    if estimates.quantiles:
        yield (
            "Inside a bucket nothing is known: a quantile says in which bucket it lies, and where "
            "it would be there if values were spread evenly."
        )
    if release.channels.mechanism in SMOOTHED:
        yield (
            "Shares are fitted and smoothed: narrow peaks come out lower and wider than they are. "
            f"An interval holds the share as smoothed in {right} of 100 such cases, not the true "
            "one, and whether anybody has a value is not judged."
        )
    elif estimates.all_entries:
        yield (
            f"An interval holds the true share in {right} of 100 such cases, for a value that you "
            "chose before you looked. Whoever scans the list or picks the largest value goes by "
            "\N{LEFT DOUBLE QUOTATION MARK}surely above zero\N{RIGHT DOUBLE QUOTATION MARK}, which "
            "is judged over all values at once."
        )
    if release.type == "multi_select":
        yield (
            "Options are counted by themselves: a device may have several or none, so shares do "
            "not add up to 100 %."
        )
    below = sum((entry.share or 0.0) < 0 for entry in estimates.all_entries)
    if below:
        many = "One estimate is" if below == 1 else f"{below} estimates are"
        yield (
            f"{many} below zero. No true share is: where hardly anybody has a value, the noise "
            "takes its estimate below zero as often as above. It is kept as it is, for cutting it "
            "off would make sums and averages too large."
        )
    if estimates.worst_shift is not None:
        yield (
            "If one report in a hundred is made up, "
            f"{off_by_fakes(release, estimates.worst_shift)} than its interval says."
        )
    if release.privacy.epsilon_permanent is not None:
        yield (
            "Epochs of this metric share remembered noise: their average is less exact than that "
            "of as many independent ones."
        )


def _factor(epsilon: float) -> str:
    if epsilon > 30:
        return f"e^{epsilon:.4g}"
    factor = math.exp(epsilon)
    return f"{factor:.3g}" if factor < 1000 else f"{factor:,.0f}"


def _in_whole(chance: float, of: int) -> str | None:
    """Return a bound as a whole number of `of`, of more where that would say "surely".

    None where that would take more than a million.
    """
    while math.ceil(chance * of) >= of:
        of *= 10
        if of > 1_000_000:
            return None
    return f"{math.ceil(chance * of):,} in {of:,}"
