"""One question with several parameters: maximum likelihood over cells."""

import itertools

import numpy as np
import pytest
from scipy import optimize, stats
from statsmodels.stats.proportion import proportion_confint

from estimator.designs import Cell, Crosswise, DesignError, Direct, Warner, estimate_cells
from estimator.errors import NoReports

CELLS = [
    Cell(Crosswise("0.15"), 1150, 850),
    Cell(Crosswise("0.2"), 700, 500),
    Cell(Crosswise("0.25"), 300, 200),
]


def test_the_share_is_the_likeliest():
    figure, _ = estimate_cells(CELLS)

    def lost(share):
        total = 0.0
        for cell in CELLS:
            chance = cell.design.a + cell.design.c * share
            total -= cell.yes * np.log(chance) + (cell.n - cell.yes) * np.log(1 - chance)
        return total

    best = optimize.minimize_scalar(lost, bounds=(-0.1, 1.1), method="bounded")
    assert figure.estimate == pytest.approx(best.x, abs=1e-6)


@pytest.mark.parametrize("yes", [0, 2, 40, 100])
def test_the_interval_of_one_cell_is_wilsons_mapped(yes):
    for design in (Warner("0.7"), Warner("0.3"), Direct()):
        figure, none = estimate_cells([Cell(design, 100, yes)], level=0.9)
        ends = proportion_confint(yes, 100, alpha=0.1, method="wilson")
        mapped = sorted((end - design.a) / design.c for end in ends)
        assert figure.interval == pytest.approx(mapped, abs=1e-9)
        assert none is None
        assert figure.estimate == pytest.approx(design.share(yes, 100))


@pytest.mark.parametrize("few", [Cell(Warner("0.8"), 2, 2), Cell(Warner("0.1"), 1, 1)])
def test_a_small_cell_of_equal_answers_does_not_open_the_interval(few):
    large = Cell(Warner("0.7"), 1000, 600)
    alone, _ = estimate_cells([large])
    both, _ = estimate_cells([large, few])
    assert both.interval == pytest.approx(alone.interval, abs=0.02)


def test_the_order_of_cells_and_their_splitting_change_nothing():
    figure, agreement = estimate_cells(CELLS)
    turned, same = estimate_cells([CELLS[2], CELLS[0], CELLS[1]])
    assert turned.estimate == pytest.approx(figure.estimate, abs=1e-12)
    assert same.chi_square == pytest.approx(agreement.chi_square)
    assert agreement.degrees == 2
    split = [Cell(CELLS[0].design, 575, 425), Cell(CELLS[0].design, 575, 425), *CELLS[1:]]
    assert estimate_cells(split)[0].estimate == pytest.approx(figure.estimate, abs=1e-12)


def test_cells_that_contradict_each_other_are_a_misfit():
    # Shares of 0.1 and of 0.6: nobody's share is both.
    cells = [
        Cell(design, 1000, round(1000 * (design.a + design.c * share)))
        for design, share in ((Crosswise("0.15"), 0.1), (Crosswise("0.2"), 0.6))
    ]
    _, agreement = estimate_cells(cells)
    assert agreement.misfit and agreement.p_value < 1e-10


def test_an_estimate_outside_is_judged_by_all_cells():
    cells = [Cell(Warner("0.7"), 500, 120), Cell(Warner("0.8"), 500, 70)]
    figure, _ = estimate_cells(cells)
    assert figure.estimate < 0 and figure.verdict.kind == "misfit"


def test_cells_of_different_designs_or_without_answers_are_refused():
    with pytest.raises(DesignError, match="of one design"):
        estimate_cells([Cell(Direct(), 10, 2), Cell(Warner("0.7"), 10, 2)])
    with pytest.raises(NoReports):
        estimate_cells([Cell(Direct(), 0, 0)])


def test_honest_cells_of_five_answers_are_denied_as_often_as_the_docs_say():
    # All outcomes: exact. docs/paper.md: "up to 5.8 % where cells have five answers".
    designs = [Crosswise("0.15"), Crosswise("0.2"), Crosswise("0.25")]
    outcomes = list(itertools.product(range(6), repeat=3))
    misfit = [
        estimate_cells([Cell(d, 5, yes) for d, yes in zip(designs, each, strict=True)])[1].misfit
        for each in outcomes
    ]
    denied = []
    for share in np.linspace(0, 1, 21):
        laws = [stats.binom.pmf(range(6), 5, design.a + design.c * share) for design in designs]
        chances = np.einsum("i,j,k->ijk", *laws).ravel()
        denied.append(float(chances @ misfit))
    assert round(max(denied), 3) == 0.058


@pytest.mark.slow
def test_agreement_is_denied_to_honest_cells_as_seldom_as_stated():
    # 2.5 % of 4,000; a binomial's 5 standard errors (false alarm below 1e-6).
    random = np.random.default_rng(11)
    designs = [Crosswise("0.15"), Crosswise("0.2"), Crosswise("0.25")]
    denied = 0
    for _ in range(4000):
        cells = [
            Cell(design, 400, int(random.binomial(400, design.a + design.c * 0.3)))
            for design in designs
        ]
        denied += estimate_cells(cells)[1].misfit
    assert abs(denied / 4000 - 0.025) < 5 * np.sqrt(0.025 * 0.975 / 4000)
