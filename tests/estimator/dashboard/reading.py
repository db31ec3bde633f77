"""Reads a page as a reader does: texts, tables, lists of figures, links, pictures, forms."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "link", "img", "input", "source", "br", "hr"}


@dataclass
class Element:
    """One element of a page.

    Attributes:
        name: Of its tag.
        given: Its attributes, unescaped.
        inside: Elements and texts in it, in order.
    """

    name: str
    given: dict[str, str]
    inside: list["Element | str"] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All texts in it, with single spaces."""
        parts = [part if isinstance(part, str) else part.text for part in self.inside]
        return " ".join(" ".join(parts).split())

    def all(self, name: str, **given: str) -> list["Element"]:
        """Return the elements of that name in it, at any depth, that have these attributes."""
        found = []
        for part in self.inside:
            if isinstance(part, str):
                continue
            wanted = {key.rstrip("_"): value for key, value in given.items()}
            if part.name == name and wanted.items() <= part.given.items():
                found.append(part)
            found += part.all(name, **given)
        return found

    def one(self, name: str, **given: str) -> "Element":
        """Return the only such element."""
        (found,) = self.all(name, **given)
        return found

    def part(self, heading: str) -> "Element":
        """Return the section with a heading of that text."""
        sections = (*self.all("section"), *self.all("article"))
        (found,) = [each for each in sections if each.headings()[:1] == [heading]]
        return found

    def headings(self) -> list[str]:
        """Return the texts of the headings in it, in order."""
        found = []
        for part in self.inside:
            if isinstance(part, Element):
                found += [part.text] if part.name in ("h1", "h2", "h3") else part.headings()
        return found

    @property
    def rows(self) -> list[list[str]]:
        """The texts of a table's cells, headings included."""
        return [
            [cell.text for cell in row.inside if isinstance(cell, Element)]
            for row in self.all("tr")
        ]

    @property
    def figures(self) -> dict[str, str]:
        """The terms and words of the lists of figures in it."""
        terms, words = self.all("dt"), self.all("dd")
        return {term.text: word.text for term, word in zip(terms, words, strict=True)}

    @classmethod
    def read(cls, text: str) -> "Element":
        """Read a page; tags must be closed in order."""
        reader = _Reader(cls("page", {}))
        reader.feed(text)
        reader.close()
        assert len(reader.open) == 1, f"left open: {[each.name for each in reader.open[1:]]}"
        return reader.open[0]


class _Reader(HTMLParser):
    def __init__(self, page: Element) -> None:
        super().__init__()
        self.open = [page]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].inside.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        closed = self.open.pop()
        assert closed.name == tag, f"</{tag}> closes <{closed.name}>"

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)
