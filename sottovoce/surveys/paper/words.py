"""The words of printed sheets: a file for each language, with the keys of the English one."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from estimator.designs.devices import Device, Values
from estimator.designs.splits import runs

REFERENCE = "en"


@dataclass(frozen=True)
class Words:
    """One language.

    Attributes:
        language: Its tag.
        name: What it calls itself.
        direction: In which it is written.
        decimal: Its decimal mark.
        texts: By key, with {placeholders}.
        reports: What designs call reports, and how they are said.
        devices: By the name of a device: its texts, and the names of its values.
    """

    language: str
    name: str
    direction: Literal["ltr", "rtl"]
    decimal: str
    texts: Mapping[str, str]
    reports: Mapping[str, str]
    devices: Mapping[str, Mapping[str, Any]]

    def say(self, key: str, **parts: object) -> str:
        """Return a text with its placeholders filled."""
        return self.texts[key].format(**parts)

    def report(self, name: str) -> str:
        """Return how a report is said; a name that is not known is said as it is."""
        return self.reports.get(name, name)

    def of(self, device: Device, key: str, **parts: object) -> str:
        """Return a text about a device."""
        return str(self.devices[named(device)][key]).format(number=device.number, **parts)

    def either(self, parts: Sequence[str]) -> str:
        """Join alternatives: "1, 2 or 3"."""
        return self._join("or", parts)

    def together(self, parts: Sequence[str]) -> str:
        """Join things: "a, b and c"."""
        return self._join("and", parts)

    def _join(self, key: str, parts: Sequence[str]) -> str:
        *first, last = parts
        return self.say(key, first=self.texts["comma"].join(first), last=last) if first else last

    def values(self, device: Device, values: Values) -> str:
        """Return values as people read them off the device."""
        if device.kind == "cards":
            return self._cards(values)
        names = self.devices[named(device)].get("values")
        label = (lambda v: names[v - device.first]) if names else str
        if device.kind == "coins":
            return self.either([label(value) for value in values])
        parts: list[str] = []
        for low, high in runs(values):
            if high - low < 2:
                parts += [label(value) for value in range(low, high + 1)]
            else:
                parts.append(self.say("to", low=label(low), high=label(high)))
        return self.either(parts)

    def _cards(self, values: Values) -> str:
        words = self.devices["cards"]
        parts = []
        for place, suit in enumerate(words["suits"]):
            ranks = tuple(v - 13 * place for v in values if 0 < v - 13 * place <= 13)
            if len(ranks) == 13:
                parts.append(words["all"].format(suit=suit))
            elif ranks:
                named_runs = [
                    words["ranks"][low - 1]
                    if low == high
                    else self.say("to", low=words["ranks"][low - 1], high=words["ranks"][high - 1])
                    for low, high in runs(ranks)
                ]
                parts.append(words["some"].format(suit=suit, ranks=self.either(named_runs)))
        return self.either(parts)

    def of_100(self, chance: Fraction) -> str:
        """Return odds out of 100, as whole people or times; "about" where they are not whole."""
        number = 100 * chance
        if number.denominator <= 2:
            return self.decimal_of(float(number), number.denominator - 1)
        whole = round(number)
        digits = 1 if whole in (0, 100) else 0
        return self.say("about", number=self.decimal_of(float(number), digits))

    def decimal_of(self, number: float, digits: int = 3) -> str:
        """Return a number with so many decimals."""
        return f"{number:.{digits}f}".replace(".", self.decimal)


def named(device: Device) -> str:
    """Return the name under which a device's words stand."""
    return f"coins{device.number}" if device.kind == "coins" else device.kind


@cache
def languages() -> tuple[str, ...]:
    """Return the tags of all languages, the reference first."""
    found = sorted(
        file.name.removesuffix(".toml")
        for file in files(__package__).joinpath("languages").iterdir()
        if file.name.endswith(".toml")
    )
    return tuple(sorted(found, key=lambda tag: tag != REFERENCE))


@cache
def words_of(language: str) -> Words:
    """Return the words of a language.

    Raises:
        ValueError: There are none.
    """
    if language not in languages():
        raise ValueError(
            f"language: sheets are written in {', '.join(languages())}, got {language!r}"
        )
    text = files(__package__).joinpath("languages", f"{language}.toml").read_text("utf-8")
    read = tomllib.loads(text)
    return Words(
        language,
        read["name"],
        read["direction"],
        read["decimal"],
        read["texts"],
        read["reports"],
        read["devices"],
    )
