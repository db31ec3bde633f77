"""Sheets as PDF, set by Typst: tagged for screen readers (PDF/UA), right-to-left where it must be.

The letters are those of the shipped font, which has Latin and Arabic; other scripts are taken from
the machine's fonts. A character that no font has is an error, never a hollow box on paper.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Literal

Size = Literal["a4", "letter"]
SIZES: dict[Size, str] = {"a4": "a4", "letter": "us-letter"}


def pdf_of(document: dict[str, Any], size: Size = "a4") -> bytes:
    """Return a document as PDF.

    Args:
        document: Of `sheet.document`.
        size: Of the paper.

    Raises:
        ValueError: Typst is not installed, or no font here has a character of the texts.
    """
    try:
        import typst
    except ModuleNotFoundError:
        raise ValueError(
            "a PDF takes the library typst: pip install 'sottovoce[paper]', or print the HTML"
        ) from None

    with _template() as (path, fonts):
        data = json.dumps(document | {"size": SIZES[size]}, ensure_ascii=False)
        try:
            return typst.compile(
                path,
                root=path.parent,
                font_paths=[fonts],
                sys_inputs={"document": data},
                format="pdf",
                pdf_standards="ua-1",
            )
        except typst.TypstError as error:
            if "font" not in error.message and "glyph" not in error.message:
                raise
            hints = " ".join([error.message, *error.hints])
            raise ValueError(
                "question: no font here has one of the characters; install a font with this "
                f"script, or print the HTML ({hints})"
            ) from None


@contextmanager
def _template() -> Iterator[tuple[Path, Path]]:
    package = files(__package__)
    with (
        as_file(package.joinpath("templates", "sheet.typ")) as template,
        as_file(package.joinpath("fonts")) as fonts,
        tempfile.TemporaryDirectory() as folder,
    ):
        # Typst reads below its root only: what it may see is the template and nothing else.
        own = Path(folder, "sheet.typ")
        own.write_bytes(template.read_bytes())
        yield own, fonts
