"""Lifetime epsilon over devices, in words."""

from estimator.lifetime import Lifetime


def lifetime_in_words(found: Lifetime) -> str:
    """Return the distribution as a short paragraph."""
    if found.highest is None:
        return f"Lifetime epsilon: no device has reported yet; the cap is {found.cap:g}."
    return (
        f"Lifetime epsilon over {found.devices} devices: highest {found.highest:g}, "
        f"mean {found.mean:.3f}, median {found.median:g}, 95th percentile {found.p95:g}; "
        f"cap {found.cap:g}, {found.exhausted} exhausted."
    )
