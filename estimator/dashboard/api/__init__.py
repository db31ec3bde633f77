"""The read API under /v1: what was published and what it cost, for programs."""
