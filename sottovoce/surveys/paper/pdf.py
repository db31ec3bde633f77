"""Sheets as PDF, set by Typst: tagged for screen readers (PDF/UA), right-to-left where it must be.

The letters are FiraGO's, which has Latin and Arabic of one cut; other scripts are taken from the
machine's fonts. A character that no font has is an error, never a hollow box on paper.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

Size = Literal["a4", "letter"]
SIZES: dict[Size, str] = {"a4": "a4", "letter": "us-letter"}
_FONTS = ("figo", "figbo")
"""FiraGO, regular and bold, by their names in pymupdf-fonts."""


def pdf_of(document: dict[str, Any], size: Size = "a4") -> bytes:
    """Return a document as PDF.

    Args:
        document: Of `sheet.document`.
        size: Of the paper.

    Raises:
        ValueError: Typst or its font is not installed, or no font here has a character of the
            texts.
    """
    try:
        import pymupdf_fonts
        import typst
    except ModuleNotFoundError:
        raise ValueError(
            "a PDF takes typst and a font: pip install 'sottovoce[paper]', or print the HTML"
        ) from None

    with _template({name: pymupdf_fonts.myfont(name) for name in _FONTS}) as (path, fonts):
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
def _template(fonts: Mapping[str, bytes]) -> Iterator[tuple[Path, Path]]:
    template = files(__package__).joinpath("templates", "sheet.typ")
    with tempfile.TemporaryDirectory() as folder:
        # Typst reads below its root only: what it may see is the template, fonts and nothing else.
        own = Path(folder, "sheet.typ")
        own.write_bytes(template.read_bytes())
        for name, content in fonts.items():
            Path(folder, f"{name}.ttf").write_bytes(content)
        yield own, own.parent
