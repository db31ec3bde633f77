"""How R's packages for randomized response are told of a question's chances.

Both packages state the law of a response, and what follows here is read off from that:

- RRreg (Heck and Moshagen, "RRreg: An R Package for Correlation and Regression Analyses of
  Randomized Response Data", Journal of Statistical Software 85(2), 2018; help page of RRuni):
  model "Warner" has one p, the probability to get the sensitive question and not its contrary:
  P(1|1) = P(0|0) = p. Model "FR", forced response, has as many as there are answers, p[i] being
  the probability to be told to say i: P(i|i) = 1 - sum of p over the others, P(i|j) = p[i].
- rr (Blair, Imai, Zhou, "Design and Analysis of the Randomized Response Technique", JASA 110, 2015;
  help page of rrreg): two answers. Design "mirrored": the same p as Warner's. Design
  "forced-known": p to answer truthfully, p1 and p0 to be told to say 1 and 0, p + p0 + p1 = 1.

A channel that keeps an answer with probability p_true and turns it into any given other one with
p_false is forced response that tells each answer with p_false. A tick is an answer 0 or 1 by
itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from client_sdk.survey import Question


@dataclass(frozen=True)
class Design:
    """What the packages are told of one column of responses.

    Attributes:
        model: RRreg's `model`.
        p: RRreg's `p`.
        rr_design: rr's `design`; empty: the package has none for so many answers.
        rr: rr's `p`, and of a forced design `p0` and `p1`.
    """

    model: str
    p: tuple[Fraction, ...]
    rr_design: str
    rr: Mapping[str, Fraction]


def design_of(question: Question) -> Design:
    """Return the design of a question's one column, or of each of its columns of ticks."""
    mechanism = question.metric.mechanism
    own, other = mechanism.support_true, mechanism.support_false
    if mechanism.kind == "cell":
        return _forced([other] * mechanism.cells, own - other)
    if own + other == 1:
        return Design("Warner", (own,), "mirrored", {"p": own})
    return _forced([1 - own, other], own - other)


def _forced(told: list[Fraction], truthful: Fraction) -> Design:
    if len(told) > 2:
        return Design("FR", tuple(told), "", {})
    return Design("FR", tuple(told), "forced-known", {"p": truthful, "p0": told[0], "p1": told[1]})
