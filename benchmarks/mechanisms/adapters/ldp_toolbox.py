"""ldp-toolbox: numpy and numba, whose noise can be predicted."""

from ldp_toolbox.protocols.frequency.grr import GeneralizedRandomizedResponse
from ldp_toolbox.protocols.frequency.lh import LocalHashing
from ldp_toolbox.protocols.frequency.ue import UnaryEncoding
from tasks import EPSILON


def of(protocol):
    def make(task):
        mechanism = protocol(task.domain, EPSILON)
        return mechanism.obfuscate, mechanism.estimate

    return make


MECHANISMS = {
    "RR": of(GeneralizedRandomizedResponse),
    "GRR-100": of(GeneralizedRandomizedResponse),
    "OUE-128": of(UnaryEncoding),
    "OUE-1024": of(UnaryEncoding),
    "OLH-1024": of(LocalHashing),
}
