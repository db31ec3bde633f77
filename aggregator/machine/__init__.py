"""Processes of one machine: the embedded store and what starts and ends with it."""
