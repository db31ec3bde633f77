"""multi-freq-ldpy: compiled by numba, from numpy's generator, whose noise can be predicted."""

from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, UE
from tasks import EPSILON


def direct(task):
    k = task.domain
    return (
        lambda value: GRR.GRR_Client(value, k, EPSILON),
        lambda reports: GRR.GRR_Aggregator_MI(reports, k, EPSILON),
    )


def unary(task):
    k = task.domain
    return (
        lambda value: UE.UE_Client(value, k, EPSILON, True),
        lambda reports: UE.UE_Aggregator_MI(reports, EPSILON, True),
    )


def hashed(task):
    k = task.domain
    return (
        lambda value: LH.LH_Client(value, k, EPSILON),
        lambda reports: LH.LH_Aggregator_MI(reports, k, EPSILON),
    )


MECHANISMS = {
    "RR": direct,
    "GRR-100": direct,
    "OUE-128": unary,
    "OUE-1024": unary,
    "OLH-1024": hashed,
}
