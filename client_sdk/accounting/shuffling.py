"""What a trusted shuffler would add: a figure to report with its assumptions, never a charge.

Feldman, McMillan, Talwar, "Hiding Among the Clones: A Simple and Nearly Optimal Analysis of Privacy
Amplification by Shuffling" (FOCS 2021), Theorem 3.1: each honest report hides among those of the
others that might as well be its own. The closed form is loose, about fourfold, and valid.
"""

import math
from typing import NamedTuple

from client_sdk.accounting.law import checked_delta
from client_sdk.errors import ParameterError
from client_sdk.mechanisms.thresholds import Real, checked_epsilon

ASSUMPTIONS = (
    "somebody trusted takes away names and order before anybody who analyses sees the reports, and "
    "does not collude with them",
    "each device has one report in the batch; several metrics of one device compose",
    "nothing else tells reports apart: no address, time, cohort or other mark",
    "the number of devices counts honest ones: subtract as many fakes as there may be",
    "compared are two batches in which one device has another value",
)


class Shuffled(NamedTuple):
    """What a shuffled batch tells about one device in it, if the assumptions hold.

    A ledger is charged the epsilon of the report all the same.

    Attributes:
        epsilon: Bound on the loss with probability 1 - delta.
        delta: Probability with which the loss may be larger.
        assumptions: What has to be true, in words.
    """

    epsilon: float
    delta: float
    assumptions: tuple[str, ...] = ASSUMPTIONS


def shuffled(epsilon: Real, devices: int, delta: float) -> Shuffled | None:
    """Return what a batch tells of one of `devices` reports that lose `epsilon` each.

    Returns:
        None where the theorem says nothing: epsilon is above ln(devices / (16 ln(4/delta))), in
        which the paper has 2 for our stricter 4.

    Raises:
        ParameterError: An argument is out of range.
    """
    if devices < 1:
        raise ParameterError(f"devices must be at least 1, got devices={devices}")
    one = float(checked_epsilon(epsilon))
    failing = math.log(4 / checked_delta(delta))
    if math.exp(one) > devices / (16 * failing):
        return None
    spread = 8 * math.sqrt(math.exp(one) * failing / devices) + 8 * math.exp(one) / devices
    return Shuffled(min(one, math.log1p(math.tanh(one / 2) * spread)), delta)
