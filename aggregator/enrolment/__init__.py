"""Who may enrol, and how often: limits by project and network."""
