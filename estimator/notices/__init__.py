"""Who hears what, once a day, by mail and webhook."""
