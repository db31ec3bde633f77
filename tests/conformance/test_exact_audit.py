"""Every mechanism through one exact audit; and the audit itself, against broken mechanisms."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import pytest

from client_sdk.audit import audit, law
from client_sdk.mechanisms import (
    CATALOGUE,
    DBitFlip,
    GeneralizedRandomizedResponse,
    HierarchicalHistogram,
    Loloha,
    Mechanism,
    OptimizedUnary,
    RandomizedResponse,
    Rappor,
    SubsetSelection,
    SymmetricUnary,
    Value,
)
from client_sdk.randomness import ONE, Coin
from tests.conformance.exact import WORDS, Case

CASES: list[Case] = [
    case
    for path in sorted((Path(__file__).parent / "cases").glob("*.py"))
    for case in import_module(f"tests.conformance.cases.{path.stem}").CASES
]


def test_every_registered_mechanism_is_audited() -> None:
    audited = {case.mechanism.name for case in CASES}
    assert audited == set(CATALOGUE)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_shipped_code_has_the_channel_and_the_loss_that_it_states(case: Case) -> None:
    mechanism, attained = case.mechanism, case.attained
    found = audit(mechanism, WORDS)
    assert found.problems == []  # rows sum to 1 and supports are those of channel()
    assert found.worst <= mechanism.epsilon <= Decimal(case.configured)
    assert (found.worst == mechanism.epsilon) == attained
    assert (found.worst_permanent is None) == (mechanism.epsilon_permanent is None)
    if mechanism.epsilon_permanent is not None:
        assert found.worst_permanent is not None
        assert (found.worst_permanent == mechanism.epsilon_permanent) == attained
        # The fresh stage alone, over any two remembered responses, is always attained.
        assert found.worst_instantaneous == mechanism.epsilon_instantaneous
        assert mechanism.epsilon <= mechanism.epsilon_permanent


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_value_owns_cells_and_the_channel_has_one_chance_for_each(case: Case) -> None:
    mechanism = case.mechanism
    value: Value = "chrome 155" if mechanism.domain is None else mechanism.sample(2)[-1]
    own = mechanism.cells_for(value, 0)
    assert list(own) == sorted(set(own))
    stated = mechanism.channel(value, 0)
    assert len(stated) == mechanism.cells
    if type(mechanism).channel is not Mechanism.channel:
        return  # it has more than two probabilities
    for cell, chance in enumerate(stated):
        assert chance == (mechanism.p_true if cell in own else mechanism.p_false)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param(GeneralizedRandomizedResponse.from_epsilon(4096, 8), id="grr-4096-values"),
        pytest.param(SymmetricUnary.from_epsilon(4096, 4), id="sue-4096-values"),
        pytest.param(OptimizedUnary.from_epsilon(4096, 1), id="oue-4096-values"),
    ],
)
def test_the_largest_domains_are_sound_too(mechanism: Mechanism) -> None:
    found = audit(mechanism)
    assert found.problems == []
    assert found.worst == mechanism.epsilon


def test_replaying_all_branches_gives_the_law_of_a_known_program() -> None:
    def draw(coin: Coin) -> int:
        return coin.uniform(3) if coin.bernoulli(ONE // 4) else 7

    outcomes, branches = law(draw)
    assert outcomes == {
        0: Fraction(1, 12),
        1: Fraction(1, 12),
        2: Fraction(1, 12),
        7: Fraction(3, 4),
    }
    assert branches == 4


# Broken mechanisms. Each is a mistake that somebody has shipped or could; the audit must tell.


class KeepsTruthTooOften(GeneralizedRandomizedResponse):
    def instantaneous(self, permanent: int, coin: Coin) -> int:
        keep = coin.bernoulli(self.keep + 1)  # by one part in 2**64
        shift = 1 + coin.uniform(self.cells - 1)
        return permanent if keep else (permanent + shift) % self.cells


class RedrawsFromAll(GeneralizedRandomizedResponse):
    """Case C03: the redraw-from-all-k law under the flip-to-other law's name."""

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return permanent if coin.bernoulli(self.keep) else coin.uniform(self.cells)


class TrueBitNotCleared(OptimizedUnary):
    """Case C06: pure-LDP kept the true bit with probability p on top of the noise."""

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        noisy = coin.flip_bits(0, self.cells, self.one_if_one, self.one_if_zero)
        return noisy | (permanent if coin.bernoulli(self.one_if_one) else 0)


class OneBitWithoutNoise(SymmetricUnary):
    def instantaneous(self, permanent: int, coin: Coin) -> int:
        noisy = coin.flip_bits(permanent, self.cells, self.one_if_one, self.one_if_zero)
        return noisy & ~1 | permanent & 1


class NarrowDraw(SymmetricUnary):
    def instantaneous(self, permanent: int, coin: Coin) -> int:
        low = (1 << self.cells - 1) - 1
        noisy = coin.flip_bits(permanent & low, self.cells - 1, self.one_if_one, self.one_if_zero)
        return noisy | permanent & ~low


class OneDrawForTwoBits(SymmetricUnary):
    def instantaneous(self, permanent: int, coin: Coin) -> int:
        noisy = coin.flip_bits(permanent, self.cells, self.one_if_one, self.one_if_zero)
        return noisy & ~2 | (noisy & 1) << 1


class OneWordForAllBits(SymmetricUnary):
    def instantaneous(self, permanent: int, coin: Coin) -> int:
        word = coin.word()
        return sum(
            (word < (self.one_if_one if permanent >> i & 1 else self.one_if_zero)) << i
            for i in range(self.cells)
        )


class NoNoise(SymmetricUnary):
    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return permanent


class PermanentWithoutNoise(Rappor):
    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        return sum(1 << cell for cell in self.cells_for(value, cohort))


class PermanentSkipsABit(Rappor):
    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        noisy = super().permanent(value, cohort, coin)
        encoded = sum(1 << cell for cell in self.cells_for(value, cohort))
        top = 1 << self.cells - 1
        return noisy & ~top | encoded & top


class PermanentRedrawnFresh(Rappor):
    """Draws its remembered noise anew in every report: nothing is remembered."""

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        return sum(1 << cell for cell in self.cells_for(value, cohort))

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        again = coin.flip_bits(permanent, self.cells, self.one_if_set, self.one_if_unset)
        return super().instantaneous(again, coin)


class WrongStatement(OptimizedUnary):
    def channel(self, value: Value, cohort: int) -> list[Fraction]:
        return [self.p_true] * self.cells


class UnderstatedLoss(RandomizedResponse):
    def __init__(self, yes_if_yes: int, yes_if_no: int) -> None:
        super().__init__(yes_if_yes, yes_if_no)
        self.epsilon -= Decimal("1e-30")


class ThresholdAboveOne(GeneralizedRandomizedResponse):
    """Always tells the truth: the other branch has a negative probability, and never comes."""

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        keep = coin.bernoulli(ONE + 10)
        shift = 1 + coin.uniform(self.cells - 1)
        return permanent if keep else (permanent + shift) % self.cells

    def channel(self, value: Value, cohort: int) -> list[Fraction]:
        own = Fraction(ONE + 10, ONE)
        other = (1 - own) / (self.cells - 1)
        return [own if cell == value else other for cell in range(self.cells)]


class LaneThresholdBelowZero(SymmetricUnary):
    def instantaneous(self, permanent: int, coin: Coin) -> int:
        return coin.flip_bits(permanent, self.cells, self.one_if_one, -5)

    def channel(self, value: Value, cohort: int) -> list[Fraction]:
        return [self.p_true if cell == value else Fraction(-5, ONE) for cell in range(self.cells)]


class DecidesBesidesTheCoin(SymmetricUnary):
    """One report in 128 is the truth, by bytes that no decision shows."""

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        noisy = super().instantaneous(permanent, coin)
        return permanent if coin._source(1)[0] < 2 else noisy


class TruthByChanceBeforeTheSubset(SubsetSelection):
    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        own = super().permanent(value, cohort, coin)
        return own << self.cells if coin.bernoulli(ONE // 2) else own

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        if permanent >> self.cells:
            return permanent >> self.cells
        return super().instantaneous(permanent, coin)


class AllShareOneCell(Loloha):
    def remembered_as(self, value: Value, cohort: int) -> str:
        return "all"


class AllShareOneWindow(DBitFlip):
    def remembered_as(self, value: Value, cohort: int) -> str:
        return "all"


class RemembersTheLevelItself(HierarchicalHistogram):
    """The law of each value is right as long as no other value comes between its two stages."""

    def permanent(self, value: Value, cohort: int, coin: Coin) -> int:
        self.level = cohort
        return 1 << self.node(int(value), cohort)

    def instantaneous(self, permanent: int, coin: Coin) -> int:
        width = self.widths[self.level]
        return coin.flip_bits(permanent, width, self.one_if_one, self.one_if_zero)


class LastValueWithoutNoise(GeneralizedRandomizedResponse):
    def instantaneous(self, permanent: int, coin: Coin) -> int:
        sent = super().instantaneous(permanent, coin)
        return permanent if permanent == self.cells - 1 else sent


def rappor(kind: type[Rappor], bits: int) -> Rappor:
    return kind(bits, 2, 4, f="0.5", p="0.5", q="0.75")


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(KeepsTruthTooOften.from_epsilon(5, 1), id="truth-kept-too-often"),
        pytest.param(RedrawsFromAll.from_epsilon(5, 1), id="redraw-from-all"),
        *(
            pytest.param(kind.from_epsilon(bits, 1), id=f"{kind.__name__}-{bits}-bits")
            for bits in (4, 64)
            for kind in (
                TrueBitNotCleared,
                OneBitWithoutNoise,
                NarrowDraw,
                OneDrawForTwoBits,
                OneWordForAllBits,
                NoNoise,
                WrongStatement,
            )
        ),
        *(
            pytest.param(rappor(kind, bits), id=f"{kind.__name__}-{bits}-bits")
            for bits in (5, 64)
            for kind in (PermanentWithoutNoise, PermanentSkipsABit, PermanentRedrawnFresh)
        ),
        pytest.param(UnderstatedLoss.from_epsilon(1), id="understated-loss"),
        pytest.param(ThresholdAboveOne.from_epsilon(5, 1), id="threshold-above-one"),
        *(
            pytest.param(kind.from_epsilon(bits, 1), id=f"{kind.__name__}-{bits}-bits")
            for bits in (4, 64)
            for kind in (LaneThresholdBelowZero, DecidesBesidesTheCoin)
        ),
        pytest.param(TruthByChanceBeforeTheSubset.from_epsilon(40, 1), id="truth-before-subset"),
        pytest.param(AllShareOneCell.from_epsilons(20, 4, 1, 2), id="one-memory-for-all-cells"),
        pytest.param(AllShareOneWindow.from_epsilon(64, 32, 1), id="one-memory-for-all-lanes"),
        pytest.param(RemembersTheLevelItself.from_epsilon(9, 1, 3), id="level-kept-9-leaves"),
        pytest.param(RemembersTheLevelItself.from_epsilon(64, 1), id="level-kept-64-leaves"),
        pytest.param(LastValueWithoutNoise.from_epsilon(2000, 1), id="last-value-without-noise"),
    ],
)
def test_a_broken_mechanism_is_reported(broken: Mechanism) -> None:
    found = audit(broken, WORDS)
    assert not found.sound
    assert found.problems


def test_an_audit_says_how_many_values_and_cohorts_it_got_to() -> None:
    few = audit(GeneralizedRandomizedResponse.from_epsilon(3000, 1))
    assert few.method == "every branch of the code, 34 of 3000 values"
    assert audit(Loloha.from_epsilons(20, 4, 1, 2)).method.endswith("code, 4 of 21 cohorts")
    assert audit(OptimizedUnary.from_epsilon(64, 1)).method == "every lane of the code"


def test_the_loss_of_a_true_bit_not_cleared_is_the_published_one() -> None:
    # Case C06: epsilon 1 becomes 1.551445 (pure-LDP PR#12, arXiv 2309.01597).
    found = audit(TrueBitNotCleared.from_epsilon(4, 1))
    assert float(found.worst) == pytest.approx(1.551445, abs=1e-6)


@pytest.mark.parametrize("rounding", ["nearest", "up"])
def test_thresholds_rounded_to_nearest_or_up_exceed_the_configured_epsilon(
    rounding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rounded(probability: Fraction | Decimal) -> int:
        scaled = Fraction(probability) * ONE
        return round(scaled) if rounding == "nearest" else -int((-scaled).__floor__())

    def exceeding() -> Sequence[Decimal]:
        epsilons = [Decimal(n) / 8 for n in range(1, 65)]
        return [e for e in epsilons if audit(RandomizedResponse.from_epsilon(e)).worst > e]

    assert exceeding() == []
    monkeypatch.setattr("client_sdk.mechanisms.randomized_response.floor_threshold", rounded)
    assert Decimal(4) in exceeding()  # golden.json thr-warner-4-64-nearest: over target
