"""Files of surveys for tests that do not care what is asked: a document to change, and its text."""

import json
import re
from copy import deepcopy
from typing import Any

from tests.registries import Date

Document = dict[str, Any]
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def question(name: str = "ever_late", *answers: str, **keys: Any) -> Document:
    """A question in English and Arabic; yes and no unless told otherwise."""
    listed = answers or ("yes", "no")
    return {
        "name": name,
        "epsilon": 1.0,
        "sensitivity": "census",
        "text": {"en": f"Is it {name}?", "ar": f"هل هو {name}؟"},
        "answers": {each: {"en": each, "ar": f"ع {each}"} for each in listed},
        **keys,
    }


def survey(*questions: Document, **keys: Any) -> Document:
    """A whole survey; keys are those of its [survey] table."""
    own = {
        "name": "habits",
        "contact": "survey@example.org",
        "languages": ["en", "ar"],
        "starts": Date("2026-12-01"),
        "expires": Date("2027-03-01"),
        "most_epsilon": 100.0,
        "title": {"en": "Habits", "ar": "عادات"},
        "purpose": {"en": "We ask to know.", "ar": "نسأل لنعرف."},
    }
    return {"schema": 1, "survey": own | keys, "questions": list(questions) or [question()]}


def changed(document: Document, key: str, value: Any) -> Document:
    """A copy with another value at a key such as questions.0.text.en; None removes it."""
    copy = deepcopy(document)
    at: Any = copy
    *path, last = (int(part) if part.isdigit() else part for part in key.split("."))
    for part in path:
        at = at[part]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return copy


def toml(document: Document) -> str:
    """The text of a file: tables inline, which reads the same."""
    return "\n".join(f"{_key(key)} = {_value(value)}" for key, value in document.items()) + "\n"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str) and not isinstance(value, Date):
        return _text(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
