"""Paper and interview designs: how respondents were asked, and what their answers say.

`base` says what a design states; each design has a file. `linear` estimates from samples (weights,
strata, finite populations), `cells` from one question asked with several parameters, `difference`
compares groups, `logistic` explains a randomized answer by covariates, `verdict` tells noise from
misfit. `devices` are coins, dice, slips and birthdays, `splits` what their values mean, `draws`
what chance orders in a design, `choosing` which device gives it. Nothing here knows a telemetry
device or a release: these surveys are on paper, in interviews, by phone.
"""

from estimator.designs.agreement import Agreement
from estimator.designs.analysis import Analysis, Request, analyse
from estimator.designs.base import Design, DesignError, YesNo
from estimator.designs.catalogue import CATALOGUE, design
from estimator.designs.cells import Cell, estimate_cells
from estimator.designs.crosswise import Crosswise
from estimator.designs.direct import Direct
from estimator.designs.forced import ForcedResponse
from estimator.designs.item_count import ItemCount
from estimator.designs.kuk import Kuk, KukDraws
from estimator.designs.lie_detector import StochasticLieDetector
from estimator.designs.linear import Figure, Stratum, estimate
from estimator.designs.mangat import Mangat
from estimator.designs.sample import Sample
from estimator.designs.several_answers import SeveralAnswers
from estimator.designs.table import BadRows
from estimator.designs.triangular import Triangular
from estimator.designs.two_coins import TwoCoins
from estimator.designs.unrelated import UnrelatedQuestion
from estimator.designs.unrelated_unknown import UnrelatedUnknown
from estimator.designs.warner import Warner

__all__ = [
    "CATALOGUE",
    "Agreement",
    "Analysis",
    "BadRows",
    "Cell",
    "Crosswise",
    "Design",
    "DesignError",
    "Direct",
    "Figure",
    "ForcedResponse",
    "ItemCount",
    "Kuk",
    "KukDraws",
    "Mangat",
    "Request",
    "Sample",
    "SeveralAnswers",
    "StochasticLieDetector",
    "Stratum",
    "Triangular",
    "TwoCoins",
    "UnrelatedQuestion",
    "UnrelatedUnknown",
    "Warner",
    "YesNo",
    "analyse",
    "design",
    "estimate",
    "estimate_cells",
]
