"""pure-ldp: numpy and `random`, whose noise can be predicted.

RAPPOR is its one-stage form. Two of its forms of Hadamard: the response is measured.
"""

import math

from pure_ldp.frequency_oracles.apple_cms import CMSClient
from pure_ldp.frequency_oracles.apple_cms.cms_sever import CMSServer
from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
from pure_ldp.frequency_oracles.hadamard_response import (
    HadamardResponseClient,
    HadamardResponseServer,
)
from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer
from pure_ldp.frequency_oracles.rappor import RAPPORClient, RAPPORServer
from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer
from tasks import EPSILON


def same(value):
    return value


def served(server, domain):
    """Return the function from reports to estimates; the server starts anew each time."""

    def estimate(reports):
        server.reset()
        server.aggregate_all(reports)
        return server.estimate_all(range(domain), suppress_warnings=True)

    return estimate


def direct(task):
    client = DEClient(EPSILON, task.domain, index_mapper=same)
    return client.privatise, served(DEServer(EPSILON, task.domain, index_mapper=same), task.domain)


def unary(task):
    options = {"use_oue": True, "index_mapper": same}
    server = UEServer(EPSILON, task.domain, **options)
    return UEClient(EPSILON, task.domain, **options).privatise, served(server, task.domain)


def hashed(task):
    options = {"use_olh": True, "index_mapper": same}
    server = LHServer(EPSILON, task.domain, **options)
    return LHClient(EPSILON, task.domain, **options).privatise, served(server, task.domain)


def hadamard(task):
    server = HadamardResponseServer(EPSILON, task.domain, index_mapper=same)
    functions = server.get_hash_funcs()
    client = HadamardResponseClient(EPSILON, task.domain, functions, index_mapper=same)
    return client.privatise, served(server, task.domain)


def sketch(task):
    server = CMSServer(EPSILON, 64, 1024, is_hadamard=False)
    return CMSClient(EPSILON, server.get_hash_funcs(), 1024, is_hadamard=False).privatise, None


def rappor(task):
    noise = 2 / (1 + math.exp(EPSILON / 4))
    server = RAPPORServer(noise, 128, 2, task.domain, num_of_cohorts=64, index_mapper=same)
    functions = server.get_hash_funcs()
    client = RAPPORClient(noise, 128, functions, num_of_cohorts=64, index_mapper=same)
    return client.privatise, None


MECHANISMS = {
    "RR": direct,
    "GRR-100": direct,
    "OUE-128": unary,
    "OUE-1024": unary,
    "OLH-1024": hashed,
    "Hadamard-1024": hadamard,
    "CMS": sketch,
    "RAPPOR": rappor,
}
