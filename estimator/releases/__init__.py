"""Releases: what they say, how they lie on disk, who signed them, how people see them."""
