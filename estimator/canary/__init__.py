"""Known truth beside estimates: whether the numbers are right."""
