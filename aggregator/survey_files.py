"""Which surveys this server asks: the files that SOTTOVOCE_SURVEYS names, read and registered."""

from collections.abc import Sequence
from pathlib import Path

from aggregator.catalogue import Catalogue
from aggregator.settings import ServerSettings, SettingsError
from aggregator.store.invitations import Invitations
from client_sdk.survey import Survey, SurveyError, load_survey

_VARIABLE = "SOTTOVOCE_SURVEYS"


def surveys_in(settings: ServerSettings) -> tuple[Survey, ...]:
    """Read the surveys that the settings name.

    Raises:
        SettingsError: Two have the same name, or pages could deliver nothing.
        SurveyError: A file cannot be read or breaks a rule; says which file.
    """
    found: dict[str, Path] = {}
    surveys = []
    for path in settings.survey_files:
        try:
            survey = load_survey(path)
        except SurveyError as error:
            raise SurveyError(f"{path}: {error.key}", error.rule, error.value) from error
        if survey.name in found:
            rule = f"must name each survey once; {found[survey.name]} and this file are the same"
            raise SettingsError(_VARIABLE, rule, str(path))
        found[survey.name] = path
        surveys.append(survey)
    if surveys and not settings.plain_uploads:
        rule = f"must be accept while {_VARIABLE} names a survey: pages seal no uploads"
        raise SettingsError("SOTTOVOCE_PLAIN_UPLOADS", rule, "refuse")
    return tuple(surveys)


def register_surveys(
    catalogue: Catalogue, invitations: Invitations, surveys: Sequence[Survey]
) -> None:
    """Add the version that each survey compiles to, where it is new, and prolong invitations to it.

    Raises:
        StoreUnavailable: The store cannot be reached.
    """
    for survey in surveys:
        catalogue.register(survey.registry_text)
        invitations.prolong(survey.name, survey.expires)
