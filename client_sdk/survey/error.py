"""The error of a survey's file."""

from client_sdk.errors import RegistryError


class SurveyError(RegistryError):
    """A key of a survey's file breaks a rule; names key, rule and value."""
