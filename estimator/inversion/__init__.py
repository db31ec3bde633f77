"""From tallies to estimates: one module for each way in which a channel is inverted."""
