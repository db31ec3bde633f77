"""diffprivlib: binary randomized response only, from the operating system's CSPRNG, on strings.

It has no estimator.
"""

from diffprivlib.mechanisms import Binary
from tasks import EPSILON


def binary(task):
    mechanism = Binary(epsilon=EPSILON, value0="0", value1="1")
    names = ("0", "1")
    return (lambda value: mechanism.randomise(names[value])), None


MECHANISMS = {"RR": binary}
