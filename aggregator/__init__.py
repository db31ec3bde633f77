"""The server side that accepts, checks and counts: one floor above the SDK.

May import `client_sdk` (what a report, a metric and a mechanism are), flask, redis and gunicorn,
and numpy in `fold` and `tally` only, since nothing else here adds up long vectors. It knows the
shapes of tallies and no statistics: those live one floor up, in `estimator`, which reads the tally
store and the ledger through modules of this package that do not load Flask.
"""
