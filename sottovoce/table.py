"""Plain-text tables for the terminal."""

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Lay out rows under a header.

    Args:
        header: Column names.
        rows: Cells, as many per row as the header has.
        left: How many first columns are aligned left; numbers go right.
    """
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def percent(share: float | None, digits: int = 2) -> str:
    """Print a share; a gap is a gap, never a zero."""
    return "-" if share is None else f"{100 * share:.{digits}f} %"
