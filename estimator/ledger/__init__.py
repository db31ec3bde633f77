"""What devices have spent in their lives."""
