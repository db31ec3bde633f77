"""Chance devices: their probabilities by counting every case, and what following them gives."""

import calendar
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.designs import design
from estimator.designs.base import Design, DesignError
from estimator.designs.choosing import for_design, for_epsilon, usual
from estimator.designs.devices import (
    BIRTH_DAYS,
    BIRTH_MONTHS,
    BIRTHDAYS,
    CARDS,
    CHOICES,
    COIN,
    DEVICES,
    DIE,
    TEN_SIDED,
    THREE_COINS,
    TWO_COINS,
    TWO_DICE,
    Device,
    slips,
)
from estimator.designs.draws import draws, family
from estimator.designs.splits import (
    CLOSE,
    NEAR,
    error,
    exact_split,
    nearest_split,
    runs,
    simplest,
)
from sottovoce.surveys.design_options import DEVICES as NAMED


def cases(device: Device) -> Iterator[int]:
    """Yield what every equally likely case shows, without a look at the device's weights."""
    match device.kind:
        case "coins":
            yield from map(sum, itertools.product((0, 1), repeat=device.number))
        case "die":
            yield from range(1, 7)
        case "dice":
            yield from map(sum, itertools.product(range(1, 7), repeat=2))
        case "ten_sided":
            yield from range(1, 11)
        case "cards":
            yield from (13 * suit + rank for suit in range(4) for rank in range(1, 14))
        case "slips":
            yield from range(1, device.number + 1)
        case _:
            # Every day of the 400 years after which the Gregorian calendar repeats itself.
            for year in range(2000, 2400):
                for month in range(1, 13):
                    for day in range(1, calendar.monthrange(year, month)[1] + 1):
                        yield month if device.kind == "birth_months" else min(day, 29)


@pytest.mark.parametrize(
    "device",
    [
        COIN,
        TWO_COINS,
        THREE_COINS,
        DIE,
        TWO_DICE,
        TEN_SIDED,
        CARDS,
        slips(2),
        slips(97),
        *BIRTHDAYS,
    ],
    ids=lambda device: f"{device.kind}{device.number or ''}",
)
def test_the_stated_probability_is_that_of_all_cases_counted(device: Device) -> None:
    seen = Counter(cases(device))
    assert set(seen) == set(device.values)
    for value in device.values:
        assert device.probability((value,)) == Fraction(seen[value], seen.total())
    assert device.probability(device.values) == 1


def test_birthdays_alone_are_called_inexact() -> None:
    assert all(device.exact for device in DEVICES)
    assert not any(device.exact for device in BIRTHDAYS)
    assert BIRTH_MONTHS.probability((1, 2, 3)) == Fraction(36097, 146097)  # 90.2425 of 365.2425
    assert BIRTH_DAYS.probability(tuple(range(1, 8))) == Fraction(7 * 12 * 400, 146097)


def test_a_bag_has_2_to_100_slips() -> None:
    for number in (1, 101):
        with pytest.raises(ValueError, match=r"2\.\.100"):
            slips(number)


def test_options_name_the_devices_that_there_are() -> None:
    assert tuple(CHOICES) == NAMED
    assert {device for each in CHOICES.values() for device in each} == {*DEVICES, *BIRTHDAYS}


PARTS = st.lists(st.integers(1, 40), min_size=2, max_size=4).map(
    lambda counts: tuple(Fraction(count, sum(counts)) for count in counts)
)


@settings(deadline=None)
@given(PARTS, st.sampled_from(DEVICES))
def test_every_split_shares_out_all_values_and_is_the_nearest(
    wanted: tuple[Fraction, ...], device: Device
) -> None:
    split = nearest_split(device, wanted)
    if split is None:
        return
    assert sorted(itertools.chain(*split.parts)) == list(device.values)
    assert all(chance > 0 for chance in split.probabilities)
    if len(wanted) == 2 and device.even:
        best = min(
            abs(Fraction(count, device.cases) - wanted[0]) for count in range(1, device.cases)
        )
        assert error(split, wanted) == best


@settings(deadline=None)
@given(PARTS)
def test_the_device_chosen_is_exact_or_near_or_the_nearest(wanted: tuple[Fraction, ...]) -> None:
    split = simplest(wanted)
    found = {d: s for d in DEVICES if (s := nearest_split(d, wanted)) is not None}
    errors = {d: error(s, wanted) for d, s in found.items()}
    simpler = [errors[d] for d in DEVICES[: DEVICES.index(split.device)] if d in errors]
    own = error(split, wanted)
    if own == 0:
        assert 0 not in simpler
    else:
        assert 0 not in errors.values()
        assert all(each > NEAR for each in simpler) if own <= NEAR else own == min(errors.values())


@pytest.mark.parametrize(
    ("wanted", "device", "parts"),
    [
        (("1/2", "1/2"), COIN, ((0,), (1,))),
        (("1/4", "1/2", "1/4"), TWO_COINS, ((0,), (1,), (2,))),
        (("2/3", "1/3"), DIE, ((1, 2, 3, 4), (5, 6))),
        (("7/10", "3/10"), slips(10), (tuple(range(1, 8)), (8, 9, 10))),
        (("3/8", "5/8"), THREE_COINS, ((1,), (0, 2, 3))),
        # The usual two dice of forced response: 2 to 4 yes, 5 to 10 the truth, 11 and 12 no
        # (van der Heijden and others, Sociological Methods & Research 28, 2000).
        (("1/6", "3/4", "1/12"), TWO_DICE, ((2, 3, 4), (5, 6, 7, 8, 9, 10), (11, 12))),
        (("2/25", "23/25"), slips(25), ((1, 2), tuple(range(3, 26)))),
    ],
)
def test_well_known_odds_have_their_well_known_device(
    wanted: tuple[str, ...], device: Device, parts: tuple[tuple[int, ...], ...]
) -> None:
    split = simplest(tuple(map(Fraction, wanted)))
    assert split.device == device
    assert sorted(map(len, split.parts)) == sorted(map(len, parts))
    assert split.probabilities == tuple(map(Fraction, wanted))
    if device.kind != "coins":
        assert split.parts == parts


def test_what_no_device_can_show_is_refused() -> None:
    for wanted in ((Fraction(1, 2), Fraction(1, 3)), (Fraction(3, 2), Fraction(-1, 2))):
        with pytest.raises(ValueError, match="sum to 1"):
            simplest(wanted)
    with pytest.raises(ValueError, match="none of the devices"):
        simplest((Fraction(1, 4),) * 4, (COIN,))
    assert exact_split(DIE, (Fraction(7, 10), Fraction(3, 10))) is None
    assert exact_split(TWO_COINS, (Fraction(1, 2), Fraction(1, 2))) is not None


def test_ranges_are_read_as_ranges() -> None:
    assert runs((1, 2, 3, 7, 9, 10)) == ((1, 3), (7, 7), (9, 10))


DESIGNS = [
    design("warner", {"p": "0.7"}),
    design("warner", {"p": "0.7311"}),
    design("two-coins", {}),
    design("two-coins", {"truth": "2/3"}),
    design("forced", {"forced_yes": "1/6", "forced_no": "1/12"}),
    design("forced", {"forced_yes": "1/3", "forced_no": "0"}),
    design("unrelated", {"p": "0.7", "q": "1/12"}),
    design("mangat", {"p": "0.64"}),
    design("kuk", {"red_if_yes": "0.8", "red_if_no": "0.25"}),
    design("crosswise", {"p": "1/4"}),
    design("triangular", {"p": "0.3"}),
    design("lie-detector", {"p1": "2/12", "p2": "10/12"}),
    design("matrix", {"answers": "a,b,c", "truth": "0.4"}),
    design("matrix", {"answers": "a,b", "matrix": "0.9 0.1; 0.2 0.8"}),
]


def followed(of: Design, truth: str, sample: int, parts: list[tuple[str, str]], shown: int) -> dict:
    """Return what somebody reports who got one part of a device, with the probability."""
    kind, said = parts[shown]
    match kind:
        case "truth" | "sensitive":
            return {truth: Fraction(1)}
        case "opposite":
            return {"yes" if truth == "no" else "no": Fraction(1)}
        case "say":
            return {said: Fraction(1)}
        case "harmless":
            return {"yes": of.q, "no": 1 - of.q}
    both = (truth == "yes", kind == "holds")
    if of.name == "crosswise":
        return {"same" if both[0] == both[1] else "different": Fraction(1)}
    return {"triangle" if any(both) else "circle": Fraction(1)}


@pytest.mark.parametrize("wished", DESIGNS, ids=lambda each: f"{each.name}")
def test_following_the_device_gives_the_matrix_that_the_design_states(wished: Design) -> None:
    """By every case of the device and every truth, not by the design's own formula."""
    choice = for_design(wished)
    for sample in range(len(wished.samples)):
        for row, truth in zip(choice.design.matrix(sample), choice.design.truths, strict=True):
            number = sample
            if wished.name == "kuk":
                number = 0 if truth == "yes" else 1
            split, draw = choice.splits[number], choice.draws[number]
            orders = [(order.kind, order.report) for order in draw.orders]
            got: Counter[str] = Counter()
            seen = Counter(cases(split.device))
            for value, often in seen.items():
                (part,) = (n for n, values in enumerate(split.parts) if value in values)
                told = followed(choice.design, truth, sample, orders, part)
                for report, chance in told.items():
                    got[report] += Fraction(often, seen.total()) * chance
            assert dict(zip(choice.design.reports(sample), row, strict=True)) == {
                report: got.get(report, 0) for report in choice.design.reports(sample)
            }


def test_a_design_of_exact_odds_stays_as_it_is_and_another_becomes_the_devices() -> None:
    for wished in DESIGNS:
        choice = for_design(wished)
        if wished.name in ("crosswise", "triangular"):
            assert not choice.exact and choice.design != wished
        elif wished.name == "warner" and wished.p == Fraction("0.7311"):
            assert choice.design.p == Fraction(19, 26)  # within 1/1000; 93 slips would be nearer
        else:
            assert choice.design == wished and choice.exact


def test_unknown_rates_and_lists_have_the_draws_that_they_need() -> None:
    assert len(draws(design("unrelated-unknown", {"p1": "0.7", "p2": "0.3"}))) == 2
    assert draws(design("item-count", {"items": 3})) == ()
    assert for_design(design("item-count", {"items": 3})).splits == ()


def test_a_matrix_that_no_single_draw_gives_is_refused() -> None:
    uneven = {"answers": "a,b,c", "matrix": "0.8 0.1 0.1; 0.2 0.7 0.1; 0.1 0.1 0.8"}
    with pytest.raises(DesignError, match="one draw"):
        draws(design("matrix", uneven))
    with pytest.raises(DesignError, match="more often"):
        draws(_backwards())


def _backwards() -> Design:
    """Return a forced response by which holders would say yes less often."""
    made = design("forced", {"forced_yes": "1/6", "forced_no": "1/6"})
    object.__setattr__(made, "forced_yes", Fraction(9, 10))
    object.__setattr__(made, "forced_no", Fraction(9, 10))
    return made


@pytest.mark.parametrize("epsilon", [0.3, 0.5, 1.0, math.log(3), 2.0, 3.0])
@pytest.mark.parametrize("name", ["warner", "forced", "two-coins", "crosswise", "matrix"])
def test_a_device_never_costs_more_epsilon_than_was_allowed(name: str, epsilon: float) -> None:
    choices = family(name, answers=("a", "b", "c"))
    choice = for_epsilon(choices, epsilon, usual(name))
    assert choice is not None
    own = choice.design.epsilon
    assert own <= epsilon * (1 + 1e-12)
    if choice.exact:
        assert own >= CLOSE * epsilon
    matrix = choice.design.matrix()
    counted = max(
        abs(math.log(a / b)) for column in zip(*matrix, strict=True) for a in column for b in column
    )
    assert own == pytest.approx(counted, abs=1e-12)


def test_three_quarters_is_two_coins_because_their_epsilon_is_exactly_ln_3() -> None:
    choice = for_epsilon(family("warner"), math.log(3))
    assert choice is not None
    assert choice.splits[0].device == TWO_COINS and choice.design.p == Fraction(3, 4)


def test_an_epsilon_does_not_choose_designs_that_it_does_not_determine() -> None:
    for name in ("mangat", "triangular", "kuk", "item-count", "unrelated"):
        with pytest.raises(DesignError, match="epsilon does not choose"):
            family(name)
    assert for_epsilon(family("warner"), 0.1, (DIE,)) is None
    with pytest.raises(DesignError, match="above 0"):
        for_epsilon(family("warner"), 0.0)
    rate = family("unrelated", q=Fraction(1, 4))
    choice = for_epsilon(rate, 1.0)
    assert choice is not None and choice.design.epsilon <= 1.0
