"""Planning: the errors and the costs of a question, exactly, before a device reports."""
