"""The project's secrets: rings of keys with states, their file, rotation and signing."""
