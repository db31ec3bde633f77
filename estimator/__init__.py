"""From tallies to published shares: the floor that knows statistics.

May import `client_sdk` (what a metric and a mechanism are), the tally and ledger readers of
`aggregator` (nothing that loads Flask), numpy, scipy and APScheduler. Whatever is computed here
is post-processing of randomized reports and cannot cost anybody privacy; it can only be wrong,
so every number states its error.
"""
