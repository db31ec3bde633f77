"""RAPPOR: published figures, wide filters, and the same bits on every machine."""

import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from client_sdk.errors import ParameterError
from client_sdk.mechanisms import Rappor
from client_sdk.randomness import Coin, PrfStream

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("f", "p", "q", "hashes", "p_star", "q_star", "epsilon", "permanent"),
    [
        # golden.json, section rappor
        pytest.param(
            0.5, 0.5, 0.75, 2, 0.5625, 0.6875, 1.074285864166728, 4.394449154672439, id="paper-like"
        ),
        pytest.param(
            0.5, 0.5, 0.75, 1, 0.5625, 0.6875, 0.537142932083364, 2.1972245773362196, id="h1"
        ),
        pytest.param(
            0.25, 0.25, 0.75, 2, 0.3125, 0.6875, 3.1538294414570807, 7.783640596221253, id="f25"
        ),
        pytest.param(
            0.5, 0.0, 1.0, 1, 0.25, 0.75, 2.1972245773362196, 2.1972245773362196, id="onetime"
        ),
    ],
)
def test_losses_and_effective_probabilities_are_the_golden_ones(
    f: float,
    p: float,
    q: float,
    hashes: int,
    p_star: float,
    q_star: float,
    epsilon: float,
    permanent: float,
) -> None:
    mechanism = Rappor(64, hashes, 1, f=f, p=p, q=q)
    # RAPPOR calls the high probability q*; here it is p_true.
    assert float(mechanism.p_true) == pytest.approx(q_star, abs=1e-15)
    assert float(mechanism.p_false) == pytest.approx(p_star, abs=1e-15)
    assert float(mechanism.epsilon) == pytest.approx(epsilon, abs=1e-9)
    assert float(mechanism.epsilon_permanent) == pytest.approx(permanent, abs=1e-9)


@pytest.mark.parametrize(
    ("p", "q", "f", "hashes", "epsilon", "permanent"),
    [
        # Case C20 (google/rappor decode.R, ComputePrivacyGuarantees).
        (0.1, 0.9, 0.2, 2, 6.06539, 8.788898),
        (0.5, 0.75, 0.5, 2, 1.074286, 4.394449),
        (0.5, 0.75, 0.5, 1, 0.537143, 2.197225),
        (0.25, 0.75, 0.5, 1, 1.021651, 2.197225),
    ],
)
def test_losses_count_hashes_and_effective_probabilities(
    p: float, q: float, f: float, hashes: int, epsilon: float, permanent: float
) -> None:
    mechanism = Rappor(128, hashes, 8, f=f, p=p, q=q)
    assert float(mechanism.epsilon) == pytest.approx(epsilon, abs=1e-6)
    assert float(mechanism.epsilon_permanent) == pytest.approx(permanent, abs=1e-6)


@pytest.mark.parametrize(
    ("permanent", "f"),
    [
        # Case C27 (pure-LDP rounded f to two decimals: at 12 that is f = 0, no noise at all).
        (0.5, 0.875647),
        (1, 0.7550813),
        (4, 0.2384058),
        (8, 0.0359724),
        (10, 0.0133857),
        (12, 0.0049452),
    ],
)
def test_f_is_solved_exactly_and_never_rounded_towards_less_noise(
    permanent: float, f: float
) -> None:
    half = Decimal(str(permanent)) / 2
    one_hash = Rappor.from_epsilons(32, 1, 1, epsilon=half, epsilon_permanent=permanent)
    assert float(one_hash.f) == pytest.approx(f, abs=1e-6)
    for hashes in (1, 2):
        solved = Rappor.from_epsilons(32, hashes, 1, epsilon=half, epsilon_permanent=permanent)
        assert solved.epsilon_permanent is not None
        gap = Decimal(str(permanent)) - solved.epsilon_permanent
        assert 0 <= gap < Decimal("1e-15")


@pytest.mark.parametrize("bits", [64, 128, 256, 4096])
def test_every_permanent_bit_is_noisy_also_beyond_the_thirty_second(bits: int) -> None:
    # Case C22 (google/rappor#59). Marginals over 400 secrets: an unset bit is 1 with
    # P = f/2 = 0.25; all unset bits together and the top half alone, 5 sigma: 6e-7 each.
    mechanism = Rappor(bits, 2, 4, f=0.5, p=0.5, q=0.75)
    own = sum(1 << cell for cell in mechanism.cells_for("chrome 155", 3))
    secrets = 400
    counts = [0] * bits
    for number in range(secrets):
        stream = PrfStream(number.to_bytes(32, "big"), b"permanent")
        permanent = mechanism.permanent("chrome 155", 3, Coin(stream))
        assert permanent < 1 << bits
        for bit in range(bits):
            counts[bit] += permanent >> bit & 1
    unset = [bit for bit in range(bits) if not own >> bit & 1]
    for lanes in (unset, [bit for bit in unset if bit >= bits // 2]):
        n = secrets * len(lanes)
        ones = sum(counts[bit] for bit in lanes)
        assert abs(ones - n * 0.25) <= 5 * (n * 0.25 * 0.75) ** 0.5
    # No single bit is stuck: a deviation of 7 sigma has probability below 3e-12, times 4096.
    sigma = (secrets * 0.25 * 0.75) ** 0.5
    assert all(abs(counts[bit] - secrets * 0.25) <= 7 * sigma for bit in unset)


@pytest.mark.parametrize("bits", [1, 64, 128, 256, 4096])
def test_a_response_has_exactly_the_width_of_the_filter(bits: int) -> None:
    mechanism = Rappor(bits, 1, 4, f=0.5, p=0.5, q=0.75)
    drawn = [
        mechanism.instantaneous(mechanism.permanent("x", 1, Coin()), Coin()) for _ in range(100)
    ]
    assert max(drawn) < 1 << bits
    # Some report sets the top bit: all 100 miss it with probability (1 - 0.56)**100 < 1e-35.
    assert max(drawn) >= 1 << bits - 1


def test_the_permanent_response_depends_on_secret_and_context_only() -> None:
    mechanism = Rappor(256, 2, 4, f=0.5, p=0.5, q=0.75)
    draws = {
        mechanism.permanent("chrome 155", 3, Coin(PrfStream(secret, context)))
        for secret in (b"1" * 32, b"1" * 32, b"2" * 32)
        for context in (b"a", b"b")
    }
    assert len(draws) == 4


def test_cells_are_the_same_in_every_process() -> None:
    # Case C30: built-in hash() differs per process.
    script = (
        "from client_sdk.mechanisms import Rappor; "
        "print(Rappor(128, 2, 64, f=0.5, p=0.5, q=0.75).cells_for('chrome 155', 3))"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    here = Rappor(128, 2, 64, f=0.5, p=0.5, q=0.75).cells_for("chrome 155", 3)
    assert answers == {str(here)}
    assert here == (34, 58)  # this implementation's own figure: changing it breaks decoding


def test_a_value_sets_exactly_as_many_bits_as_there_are_hashes() -> None:
    mechanism = Rappor(5, 4, 16, f=0.5, p=0.5, q=0.75)
    for cohort in range(16):
        for value in range(50):
            cells = mechanism.cells_for(f"value {value}", cohort)
            assert len(cells) == len(set(cells)) == 4
            assert cells == tuple(sorted(cells))
            assert 0 <= cells[0] and cells[-1] < 5


def test_cohorts_hash_differently() -> None:
    mechanism = Rappor(4096, 2, 64, f=0.5, p=0.5, q=0.75)
    assert len({mechanism.cells_for("chrome 155", cohort) for cohort in range(64)}) == 64


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"bits": 0}, r"bits must lie in 1\.\.4096, got bits=0"),
        ({"bits": 4097}, "bits must lie in"),
        ({"hashes": 0}, r"hashes must lie in 1\.\.bits=8"),
        ({"hashes": 9}, "hashes must lie in"),
        ({"cohorts": 0}, r"cohorts must lie in 1\.\.65536"),
        ({"cohorts": 65537}, "cohorts must lie in"),
        ({"f": 1}, "need f < 1 and p < q"),
        ({"f": -0.1}, r"f must lie in \[0, 1\]"),
        ({"p": 0.75}, "need f < 1 and p < q"),
        ({"p": 0.9}, "need f < 1 and p < q"),
        ({"q": 1.01}, r"q must lie in \[0, 1\]"),
        ({"f": "0.99999999999999999999999"}, "leave nothing to learn"),
    ],
)
def test_parameters_outside_their_ranges_are_refused(
    arguments: dict[str, float], complaint: str
) -> None:
    shape = {"bits": 8, "hashes": 2, "cohorts": 4, "f": 0.5, "p": 0.5, "q": 0.75}
    with pytest.raises(ParameterError, match=complaint):
        Rappor(**{**shape, **arguments})


@pytest.mark.parametrize(
    "written",
    [
        {"f": 1},
        {"f": 2},
        {"f": -1},
        {"p": 1},
        {"p": 2},
        {"p": -0.5},
        {"q": 0},
        {"q": 0.4},
        {"q": 3},
        {"f": 0.99, "p": 0.9},
    ],
    ids=str,
)
def test_impossible_written_parameters_are_a_parameter_error(written: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        Rappor.from_epsilons(16, 2, 4, epsilon=1, epsilon_permanent=4, **written)


def test_written_parameters_are_kept_and_the_others_solved() -> None:
    mechanism = Rappor.from_epsilons(16, 2, 4, epsilon=1, epsilon_permanent=5, f=0.5, p=0.25)
    parameters = mechanism.parameters()
    assert parameters["report_if_zero"] == 2**62
    assert 0 <= 1 - mechanism.epsilon < Decimal("1e-15")
    with pytest.raises(ParameterError, match="epsilon_permanent must be above epsilon"):
        Rappor.from_epsilons(16, 2, 4, epsilon=4, epsilon_permanent=4)
