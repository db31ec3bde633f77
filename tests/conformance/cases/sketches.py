"""Strings, without memory: cases for the exact audit."""

from client_sdk.mechanisms import CountMeanSketch, HadamardCountMeanSketch
from tests.conformance.exact import Case

CASES = [
    Case("cms-2-cells", CountMeanSketch.from_epsilon(2, 4, 1), "1"),
    Case("cms-8-cells", CountMeanSketch.from_epsilon(8, 3, "0.4"), "0.4"),
    Case("cms-10-cells", CountMeanSketch.from_epsilon(10, 1, 20), "20"),
    Case("cms-256-cells", CountMeanSketch.from_epsilon(256, 64, 2), "2"),
    Case("cms-4096-cells", CountMeanSketch.from_epsilon(4096, 64, 4), "4"),
    Case("hcms-2-cells", HadamardCountMeanSketch.from_epsilon(2, 4, 1), "1"),
    Case("hcms-4-cells", HadamardCountMeanSketch.from_epsilon(4, 3, "0.01"), "0.01"),
    Case("hcms-16-cells", HadamardCountMeanSketch.from_epsilon(16, 1, 20), "20"),
    Case("hcms-256-cells", HadamardCountMeanSketch.from_epsilon(256, 64, 2), "2"),
]
