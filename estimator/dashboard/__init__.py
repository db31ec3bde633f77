"""What is published and what it cost, over HTTP: the read API under /v1."""
