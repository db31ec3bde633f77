"""What fakes can do to an estimate, who may send whatever a device can send (reference 17).

Cao, Jia, Gong, "Data Poisoning Attacks to Local Differential Privacy Protocols" (USENIX Security
2021). No estimator takes this away: a fake may do what an honest device with a chosen value does.
"""

from typing import Literal

from client_sdk.mechanisms import DBitFlip, HierarchicalHistogram, Mechanism, SquareWave
from estimator.debias import Channel
from estimator.plausibility import FAKES

_OTHERWISE = (DBitFlip, HierarchicalHistogram, SquareWave)


def shift_range_of(
    mechanism: Mechanism, share: float, fakes: float = FAKES
) -> tuple[float, float] | None:
    """Return by how much fakes can move a value's estimate at a true share, down and up.

    None where a value's estimate is not its count of supports, inverted: `worst_shift` bounds it.
    """
    direct = mechanism.counted and mechanism.encodes in ("one", "several")
    if not direct or isinstance(mechanism, _OTHERWISE):
        return None
    return shift_range(Channel.of_values(mechanism), share, fakes)


def shift_range(channel: Channel, share: float, fakes: float = FAKES) -> tuple[float, float]:
    """Return the same of a channel.

    Args:
        channel: Of the value's supports.
        share: That honest devices hold.
        fakes: Part of the reports that are fakes, in place of honest ones.
    """
    ends = -channel.p_false / channel.gap, (1 - channel.p_false) / channel.gap
    return fakes * (min(ends) - share), fakes * (max(ends) - share)


def gain(
    channel: Channel,
    kind: Literal["cell", "bits"],
    targets: int,
    share: float,
    fakes: float = FAKES,
) -> float:
    """Return by how much fakes can raise the sum of several values' estimates.

    Args:
        channel: Of the values' supports, with p_true above p_false.
        kind: "cell" if a report supports one of them, "bits" if it can support all.
        targets: Number of values.
        share: That honest devices hold, of all of them together.
        fakes: Part of the reports.
    """
    supported = 1 if kind == "cell" else targets
    return fakes * ((supported - targets * channel.p_false) / channel.gap - share)
