"""Charts of the privacy page: what devices have spent, and how a life is divided."""

from collections.abc import Callable
from typing import Any

from estimator.dashboard.pages.privacy import Ledger
from estimator.drawing import Palette, Spec, spec

MOST_SHARES = 20
FREE = "free"


def lifetime_chart(ledger: Ledger, palette: Palette) -> Spec | None:
    """Draw how many devices have spent how much; None: nobody has looked, or there are none."""
    if not ledger.devices:
        return None
    rows = [{"low": low, "high": high, "devices": n} for low, high, n in ledger.classes]
    x = {
        "field": "low",
        "type": "quantitative",
        "title": f"epsilon spent in a life, of {ledger.cap:g}",
        "scale": {"domain": [0, ledger.classes[-1][1]], "nice": False},
        "axis": {"grid": False, "tickCount": 10},
    }
    y = {
        "field": "devices",
        "type": "quantitative",
        "title": "devices",
        "axis": {"tickCount": 5, "format": ",d"},
        "scale": {"domainMin": 0},
    }
    bar = {
        "mark": {"type": "bar", "color": palette.accent, "opacity": 0.85, "binSpacing": 2},
        "encoding": {"x": x | {"bin": {"binned": True}}, "x2": {"field": "high"}, "y": y},
    }
    text = {
        "mark": {"type": "text", "dy": -7, "color": palette.ink, "fontSize": 11},
        "transform": [
            {"filter": "datum.devices > 0"},
            {"calculate": "(datum.low + datum.high) / 2", "as": "middle"},
        ],
        "encoding": {
            "x": {"field": "middle", "type": "quantitative"},
            "y": y,
            "text": {"field": "devices", "format": ","},
        },
    }
    size = {"width": 720, "height": 250, "autosize": {"type": "fit", "contains": "padding"}}
    parts = size | {"data": {"values": rows}, "layer": [bar, text]}
    return spec(parts, palette)


def shares_chart(ledger: Ledger, palette: Palette) -> Spec:
    """Draw a life from 0 to the cap, in the order in which its parts are reserved."""
    parts = _parts(ledger)
    rows: list[dict[str, Any]] = []
    start = 0.0
    for name, reserved, used in parts:
        now = min(used, reserved)
        if now:
            rows.append({"name": name, "kind": "used", "from": start, "to": start + now})
        if reserved > now:
            kind = FREE if name == FREE else "reserved"
            rows.append({"name": name, "kind": kind, "from": start + now, "to": start + reserved})
        start += reserved
    kinds = ["used on average", "reserved, not used", "not reserved"]
    words = dict(zip(("used", "reserved", FREE), kinds, strict=True))
    for row in rows:
        row["kind"] = words[row["kind"]]
    return spec(
        {
            "data": {"values": rows},
            "width": 720,
            "autosize": {"type": "fit-x", "contains": "padding"},
            "height": {"step": 24},
            "mark": {"type": "bar", "height": {"band": 0.66}},
            "encoding": {
                "y": {
                    "field": "name",
                    "type": "nominal",
                    "title": None,
                    "sort": [name for name, _, _ in parts],
                    "axis": {"labelLimit": 200},
                },
                "x": {
                    "field": "from",
                    "type": "quantitative",
                    "title": "epsilon of one life",
                    "scale": {"domain": [0, ledger.cap], "nice": False},
                    "axis": {"tickCount": 8},
                },
                "x2": {"field": "to"},
                "color": {
                    "field": "kind",
                    "type": "nominal",
                    "title": None,
                    "scale": {
                        "domain": kinds,
                        "range": [palette.series[1], palette.accent, palette.grid],
                    },
                    "legend": {"orient": "top"},
                },
            },
        },
        palette,
    )


def _parts(ledger: Ledger) -> list[tuple[str, float, float]]:
    """Name, epsilon reserved and used; of very many metrics those that follow are one part."""
    found = [(share.name, share.reserved, share.used or 0.0) for share in ledger.shares]
    if len(found) > MOST_SHARES:
        rest = found[MOST_SHARES - 1 :]
        together = (f"{len(rest)} more", sum(r for _, r, _ in rest), sum(u for _, _, u in rest))
        found = [*found[: MOST_SHARES - 1], together]
    return [*found, (FREE, ledger.free, 0.0)] if ledger.free else found


CHARTS: dict[str, Callable[[Ledger, Palette], Spec | None]] = {
    "lifetime": lifetime_chart,
    "shares": shares_chart,
}
"""By their names in addresses."""
