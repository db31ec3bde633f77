"""What many reports of one device reveal together, by every rule that holds for them.

A cap is kept with the plain sum of epsilons only: it holds with delta 0, in any order, and in
integers (`Accounted.enforced`). Everything else here is *shown beside it and never enforced*, and
is at most the sum: with probability at most delta the loss may be larger. Those rules hold for
reports with fresh noise. Reports of a memoized metric share theirs, so they have figures of their
own (`remembered`) and never enter the rules. Each formula names its paper.

Standard library only, and nothing that a running client loads: it is for reviews and servers.
"""

from client_sdk.accounting.account import Accounted, account
from client_sdk.accounting.law import DELTA, Fresh, Law, law_of, worst_law
from client_sdk.accounting.life import Life, whole_life
from client_sdk.accounting.remembered import Remembered, covering_changes, same_changes
from client_sdk.accounting.shuffling import Shuffled, shuffled
from client_sdk.accounting.unknown import of_unknown_reports

__all__ = [
    "DELTA",
    "Accounted",
    "Fresh",
    "Law",
    "Life",
    "Remembered",
    "Shuffled",
    "account",
    "covering_changes",
    "law_of",
    "of_unknown_reports",
    "same_changes",
    "shuffled",
    "whole_life",
    "worst_law",
]
