"""The published table: what ``--table`` prints, as Markdown, and its short form for the README."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tests.bench.rounds import SETTINGS, Row, Taken, middle, ratio, short

__all__ = ["printed"]

_LABELS = {"ours": "ours", "official": "official", "fastmcp": "FastMCP", "floor": "floor"}
_HEAD = ("work", "setting", *_LABELS.values(), "without", "to official", "to floor", "to without")


def printed(rows: Sequence[Row], taken: Taken) -> str:
    whole = [(*_HEAD, "reach", "reached"), *(_line(row, taken) for row in rows)]
    brief = [("", "ours", "official", "FastMCP"), *_short(rows, taken)]
    settings = [f"- {who}: {setting}" for who, setting in SETTINGS.items()]
    return "\n".join((*settings, "", *_markdown(whole), "", *_markdown(brief)))


def _line(row: Row, taken: Taken) -> tuple[str, ...]:
    official, floor, base = (ratio(taken, row, who) for who in ("official", "floor", "base"))
    ours = middle(taken, row, "ours")
    wanted = [
        (f"{row.target}", base if row.alone else official, row.target),
        (f"floor {row.to_floor}", floor, row.to_floor),
        (f"{row.most} {row.unit}", ours, row.most),
    ]
    aims = [(text, found, most) for text, found, most in wanted if most is not None]
    reached = "yes" if all(found <= most for _, found, most in aims) else "**no**"
    return (
        row.label,
        row.setting or "-",
        *(_figure(row, middle(taken, row, who)) for who in (*_LABELS, "base")),
        *("-" if math.isnan(one) else f"{one:.2f}" for one in (official, floor, base)),
        ", ".join(text for text, _, _ in aims) or "-",
        reached if aims else "-",
    )


def _short(rows: Sequence[Row], taken: Taken) -> Iterator[tuple[str, ...]]:
    compared = ("ours", "official", "fastmcp")
    for row in rows:
        if row.short and (row.name, "ours passed") in taken:
            times = [middle(taken, row, f"{who} passed") / 1e6 for who in compared]
            yield (f"calls a second: {row.label}", *(f"{1 / one:,.0f}" for one in times))
    for row in rows:
        if row.short:
            yield (row.short, *(_figure(row, middle(taken, row, who)) for who in compared))


def _figure(row: Row, figure: float) -> str:
    return "-" if math.isnan(figure) else f"{short(figure)} {row.unit}"


def _markdown(lines: Sequence[tuple[str, ...]]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"| {' | '.join(line)} |"
        if number == 0:
            yield f"|{'|'.join(['---', *['---:'] * (len(line) - 1)])}|"
