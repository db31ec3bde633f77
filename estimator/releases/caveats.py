"""What the figures of a release are not, in sentences: part of the document and of its page."""

from client_sdk.mechanisms import SquareWave
from client_sdk.metric import Metric
from estimator.estimates import Estimates

SMOOTHED = (SquareWave.name,)
"""Mechanisms whose shares are fitted under a smoothness that nobody has measured: biased."""


def caveats_of(metric: Metric, estimates: Estimates) -> tuple[str, ...]:
    """Return the caveats of a published release; the first says whom the figures are about.

    Args:
        metric: The version.
        estimates: What is published.
    """
    caveats = [_about(metric, estimates)]
    if estimates.entries:
        caveats += _of_shares(metric)
    if estimates.mean is not None:
        caveats.append("The mean is an unbiased estimate: noise may carry it out of the range.")
    if metric.edges:
        caveats.append(
            "Values outside the range were counted at its ends: no estimate can undo that."
        )
    if estimates.quantiles:
        caveats.append(
            "Inside a bucket nothing is known of where values lie: quantiles take them to be "
            "spread evenly, and their intervals end at edges of buckets."
        )
    caveats.append(
        "`standard_error` and intervals describe the population that reporters are a sample of; "
        "`standard_error_reporters` describes these reporters."
    )
    if len(estimates.all_entries) > 1:
        caveats.append(
            "`interval` covers one value at a time; comparisons over many values need "
            "`simultaneous_interval`."
        )
    caveats.append("No number here says more about one device than the stated epsilon allows.")
    if metric.memoize is not None:
        caveats.append(
            "Epochs of this metric share remembered noise and devices: averaging epochs makes "
            "errors smaller by less than independence would suggest."
        )
    return tuple(caveats)


def _about(metric: Metric, estimates: Estimates) -> str:
    figures = "Shares are" if estimates.entries or not metric.edges else "The mean is"
    if metric.when_absent is None:
        return f"{figures} of devices that recorded a value in this epoch, not of all devices."
    return (
        f"{figures} of all devices that ran the app; those that recorded nothing count as the "
        "metric's value for absence."
    )


def _of_shares(metric: Metric) -> list[str]:
    caveats = []
    if metric.mechanism.name in SMOOTHED:
        caveats.append(
            "Shares are fitted and smoothed, which is biased: narrow peaks come out lower and "
            "wider than they are."
        )
    else:
        caveats.append(
            "A share is an unbiased estimate: it may be negative or above one, which is noise."
        )
    if metric.type == "multi_select":
        caveats.append(
            "Options are counted by themselves: a device may have several or none, so shares do "
            "not add up to 100 %."
        )
    caveats.append("`consistent` is biased and for display; add, average and compare `share` only.")
    return caveats
