"""The reference page of the catalogue: `python -P -m grader.marker_page >docs/reference/markers.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from grader.markers import Catalogue, Marker, Origin, load_catalogue

_HEAD = """# Markers

Every text that bv3 looks for in what the product prints or answers, from `broker/markers.toml`: {total} of them.
[`bv3-grade verify`](verify.md) checks whether a product still prints them. `{{...}}` is a value.

This page is generated: `python -P -m grader.marker_page >docs/reference/markers.md`.
"""
_TITLES = {
    Origin.SOURCE: "Lines that the product's code prints",
    Origin.REPLY: "Values that a command or a session answers with, looked for within other lines",
    Origin.SDK: "Lines and data of libraries under the product",
    Origin.HARNESS: "Lines that a supervisor prints",
}


def render_page(catalogue: Catalogue) -> str:
    """The page as Markdown."""
    lines = [_HEAD.format(total=len(catalogue.markers))]
    for origin, title in _TITLES.items():
        lines += [f"## `{origin.value}`: {title[0].lower()}{title[1:]}", "", *_table(catalogue, origin), ""]
    return "\n".join(lines)


def _table(catalogue: Catalogue, origin: Origin) -> Iterator[str]:
    yield "| name | source | level | template |"
    yield "| --- | --- | --- | --- |"
    for marker in catalogue.markers:
        if marker.origin is origin:
            yield f"| {marker.name} | {marker.source or '-'} | {marker.level or '-'} | {_code(marker)} |"


def _code(marker: Marker) -> str:
    text = marker.template.replace("{{", "{").replace("|", r"\|")
    return f"``{text}``" if "`" in text else f"`{text}`"


if __name__ == "__main__":
    sys.stdout.write(render_page(load_catalogue()))
