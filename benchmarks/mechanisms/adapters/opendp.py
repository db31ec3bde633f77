"""opendp: compiled, from the operating system's CSPRNG.

Of unary encodings it has the symmetric one only, which draws as many bits; for RAPPOR that is one
stage on a filter that is already hashed.
"""

import math

import opendp.prelude as dp
from tasks import EPSILON

dp.enable_features("contrib")
POWER = math.exp(EPSILON)


def binary(task):
    keep = dp.m.make_randomized_response_bool(prob=POWER / (1 + POWER))
    truths = (False, True)
    return (lambda value: keep(truths[value])), None


def several(task):
    probability = POWER / (POWER + task.domain - 1)
    return dp.m.make_randomized_response(
        categories=list(range(task.domain)), prob=probability
    ), None


def bits(width, ones):
    def make(task):
        noise = 2 / (1 + math.exp(EPSILON / (2 * ones)))
        flip = dp.m.make_randomized_response_bitvec(
            dp.bitvector_domain(max_weight=ones), dp.discrete_distance(), f=noise
        )
        vectors = [_vector(width, ones, value) for value in range(task.domain)]
        server = None if task.name == "RAPPOR" else debiased
        return (lambda value: flip(vectors[value])), server

    def debiased(reports):
        noise = 2 / (1 + math.exp(EPSILON / (2 * ones)))
        return dp.m.debias_randomized_response_bitvec(reports, f=noise)

    return make


def _vector(width, ones, value):
    places = [(value * (37 * each + 1) + 11 * each) % width for each in range(ones)]
    return sum(1 << place for place in set(places)).to_bytes(width // 8, "little")


MECHANISMS = {
    "RR": binary,
    "GRR-100": several,
    "OUE-128": bits(128, 1),
    "OUE-1024": bits(1024, 1),
    "RAPPOR": bits(128, 2),
}
