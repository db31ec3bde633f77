"""One level of a tree over ordered buckets: cases for the exact audit."""

from client_sdk.mechanisms import HierarchicalHistogram
from tests.conformance.exact import Case

CASES = [
    Case("tree-2-leaves", HierarchicalHistogram.from_epsilon(2, 1), "1"),
    Case("tree-5-leaves-in-pairs", HierarchicalHistogram.from_epsilon(5, "0.5", 2), "0.5"),
    Case("tree-9-leaves-in-threes", HierarchicalHistogram.from_epsilon(9, 3, 3), "3"),
    Case("tree-10-leaves-in-fours", HierarchicalHistogram.from_epsilon(10, 8), "8"),
    Case("tree-100-leaves-in-fours", HierarchicalHistogram.from_epsilon(100, 1), "1"),
    Case("tree-1024-leaves-in-thirties", HierarchicalHistogram.from_epsilon(1024, 2, 32), "2"),
]
