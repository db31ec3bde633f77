"""What fakes can do to an estimate, who may send whatever a device can send (reference 17).

Cao, Jia, Gong, "Data Poisoning Attacks to Local Differential Privacy Protocols" (USENIX Security
2021). No estimator takes this away: a fake may do what an honest device with a chosen value does.
"""

from typing import Literal

from estimator.debias import Channel


def shift_range(channel: Channel, share: float, fakes: float = 0.01) -> tuple[float, float]:
    """Return by how much fakes can move a value's estimate at a true share, down and up.

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
    fakes: float = 0.01,
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
