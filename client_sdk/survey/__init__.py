"""Surveys that are answered in a browser: one file is read, checked, and becomes metrics.

A survey compiles to a version of a registry, so that all that counts telemetry counts surveys. The
words of the page are data (`languages/`), and so is what a page is told (`page_document`).
"""

from client_sdk.survey.definition import load_survey, loads_survey
from client_sdk.survey.error import SurveyError
from client_sdk.survey.interface import built_in_languages, interface_of
from client_sdk.survey.model import Answer, Interface, Odds, Question, Survey
from client_sdk.survey.names import PREFER_NOT, PREFIX, is_survey, metric_name, survey_of
from client_sdk.survey.odds import LEAST_DENIABLE, deniable, odds_of, sent_by_others
from client_sdk.survey.page import page_document

__all__ = [
    "LEAST_DENIABLE",
    "PREFER_NOT",
    "PREFIX",
    "Answer",
    "Interface",
    "Odds",
    "Question",
    "Survey",
    "SurveyError",
    "built_in_languages",
    "deniable",
    "interface_of",
    "is_survey",
    "load_survey",
    "loads_survey",
    "metric_name",
    "odds_of",
    "page_document",
    "sent_by_others",
    "survey_of",
]
