"""What every library is asked to do; read by the interpreters of all of them.

Values are drawn unevenly from 0..domain-1, the same for everybody.
"""

from dataclasses import dataclass

EPSILON = 1.0


@dataclass(frozen=True)
class Task:
    """One mechanism at one size.

    Attributes:
        name: As adapters know it.
        domain: Number of values; where values are strings, how many occur.
        shape: What else is fixed, in words.
        reports: How many are tallied and estimated from; 0: only clients are measured.
        subset: How many of them peers get, whose times are then stretched in proportion.
    """

    name: str
    domain: int
    shape: str = ""
    reports: int = 0
    subset: int = 0


TASKS = (
    Task("RR", 2),
    Task("GRR-100", 100),
    Task("OUE-128", 128, reports=100_000),
    Task("OUE-1024", 1024, reports=20_000),
    Task("OLH-1024", 1024, reports=100_000, subset=1_000),
    Task("Hadamard-1024", 1024, reports=100_000),
    Task("CMS", 1000, "64 hashes of 1,024 cells"),
    Task("RAPPOR", 1000, "128 bits, 2 hashes, 64 cohorts"),
)


def values(domain: int, count: int) -> list[int]:
    """Return `count` values, small ones more often."""
    state, drawn = 1, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        drawn.append(domain * (state >> 40) * (state >> 40) >> 48)
    return drawn
