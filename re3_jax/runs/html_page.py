"""HTML of pages that need no other file: escaped text, tables, and pictures within the page."""

import base64
import html
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

DOCTYPE = "<!DOCTYPE html>\n"

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 1180px; margin: 2rem auto;
  padding: 0 1.2rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; }
h2 { font-size: 1.15rem; margin-top: 2.2rem; border-bottom: 1px solid #ddd; padding-bottom: .2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid #e6e6e6;
  vertical-align: top; max-width: 26rem; overflow-wrap: break-word; }
th { font-weight: 600; }
td:first-child { white-space: nowrap; }
img, video { max-width: 100%; height: auto; }
figure { display: inline-block; margin: .5rem 1.2rem .5rem 0; vertical-align: top; }
figcaption, .note { color: #555; font-size: 14px; }
summary { cursor: pointer; padding: .3rem 0; }
pre { background: #f6f6f6; padding: .8rem; overflow-x: auto; font-size: 13px; }
"""

LOADS_NOTHING = (
    "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; base-uri 'none'"
)
"""Content security policy: a browser loads nothing and runs no script."""


class Html(str):
    """Markup. Every other string is text, and is escaped where it is put into markup."""


def element(tag: str, *content: str, **attributes: str) -> Html:
    """`<tag name="value">content</tag>`; `class_` and `http_equiv` are spelled so in Python."""
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for name, value in attributes.items()
    )
    return Html(f"<{tag}{given}>{joined(content)}</{tag}>")


def joined(content: Iterable[str]) -> Html:
    """Joins pieces of a page, one after the other; those that are text are escaped."""
    return Html("".join(x if isinstance(x, Html) else html.escape(x) for x in content))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Html:
    """A table; wide ones scroll."""
    head = element("tr", *(element("th", cell, scope="col") for cell in header))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    whole = element("table", element("thead", head), element("tbody", *body))
    return element("div", whole, class_="wide")


def section(title: str, *content: str) -> Html:
    """A part of a page under a heading."""
    return element("section", element("h2", title), *content)


def folded(title: str, *content: str) -> Html:
    """A part that a click opens."""
    return element("details", element("summary", title), *content)


def picture(figure: Figure, words: str) -> Html:
    """A figure as a PNG within the page; `words` say what it shows, for who cannot see it."""
    png = BytesIO()
    figure.savefig(png, format="png")
    width = round(figure.get_figwidth() * 96)
    source = _within("image/png", png.getvalue())
    return Html(f'<img alt="{html.escape(words)}" width="{width}" src="{source}">')


def film(path: Path) -> Html:
    """An MP4 within the page."""
    source = _within("video/mp4", path.read_bytes())
    return Html(f'<video controls loop muted preload="metadata" src="{source}"></video>')


def page(title: str, maker: str, *content: str) -> str:
    """A whole document; `maker` is the program that writes it."""
    head = Html(
        '<meta charset="utf-8">'
        f'<meta name="generator" content="{html.escape(maker)}">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(LOADS_NOTHING)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
    )
    top = element("head", head, element("title", title), element("style", Html(STYLE)))
    body = element("body", element("h1", title), *content)
    return DOCTYPE + element("html", top, body, lang="en")


def made_by(maker: str, path: Path) -> bool:
    """Whether a file is a page of this program."""
    with path.open("rb") as file:
        return f'name="generator" content="{html.escape(maker)}"'.encode() in file.read(400)


def _within(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
