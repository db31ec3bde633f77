"""Buckets through a window: cases for the exact audit."""

from client_sdk.mechanisms import SquareWave
from tests.conformance.exact import Case

CASES = [
    Case("square-wave-2-buckets", SquareWave.from_epsilon(2, 1), "1"),
    Case("square-wave-16-buckets", SquareWave.from_epsilon(16, "0.5"), "0.5"),
    Case("square-wave-32-buckets", SquareWave.from_epsilon(32, 2), "2"),
    Case("square-wave-narrow", SquareWave.from_epsilon(12, 1, half_width=0), "1"),
    Case("square-wave-wide", SquareWave.from_epsilon(6, 1, half_width=3), "1"),
]
