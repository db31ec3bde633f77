"""What administrators did: a log that shows when it was changed."""
