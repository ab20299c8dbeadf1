# SPDX-License-Identifier: Apache-2.0
"""The screen of a terminal as SVG: what tmux capture-pane -e prints becomes elements.

It knows the escape sequences of bold, underlined and reversed text, and leaves out others.
"""

import html
import re

COLUMN, ROW, MARGIN = 7.8, 17, 12
INK, PAPER = "#ddd", "#1c1f26"


def pieces(line, shown):
    """(column, text, attributes) of each piece of LINE; SHOWN, a set, is what is on, and stays."""
    column = 0
    for codes, text in re.findall(r"(?:\x1b\[([0-9;]*)m)?([^\x1b]*)", line):
        for code in codes.split(";") if codes else []:
            if code in ("", "0"):
                shown.clear()
            elif code in ("1", "4", "7"):
                shown.add(code)
            else:
                shown.discard({"22": "1", "24": "4", "27": "7"}.get(code))
        yield column, text, frozenset(shown)
        column += len(text)


def block(row, column, columns):
    """A filled part of a line."""
    return (f'<rect x="{MARGIN + column * COLUMN:.1f}" y="{MARGIN + row * ROW}" '
            f'width="{columns * COLUMN:.1f}" height="{ROW}" fill="{INK}"/>')


def draw(row, column, text, shown):
    """The elements of a piece of a line."""
    if "7" in shown and text:
        yield block(row, column, len(text))
    # Blanks that no attribute shows would only be longer.
    drawn = text.rstrip() if not shown else text
    if drawn.strip():
        style = f' fill="{PAPER}"' if "7" in shown else ""
        style += ' font-weight="bold"' if "1" in shown else ""
        style += ' text-decoration="underline"' if "4" in shown else ""
        yield (f'<text x="{MARGIN + column * COLUMN:.1f}" y="{MARGIN + row * ROW + 13}" '
               f'textLength="{len(drawn) * COLUMN:.1f}"{style}>{html.escape(drawn, quote=False)}</text>')


def screen(lines, first=0):
    """The elements of each of LINES, of which the uppermost is in the row FIRST: a text for each."""
    shown = set()
    return ["".join(element for piece in pieces(line, shown) for element in draw(row, *piece))
            for row, line in enumerate(lines, first)]


def document(columns, rows, maker, body):
    """The picture of so many columns and rows, as text; MAKER is the program that makes it."""
    width, height = 2 * MARGIN + columns * COLUMN, 2 * MARGIN + rows * ROW
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'font-family="monospace" font-size="13" fill="{INK}" xml:space="preserve">',
        f"<!-- SPDX-License-Identifier: Apache-2.0; made by {maker} -->",
        f'<rect width="{width:.0f}" height="{height}" rx="6" fill="{PAPER}"/>',
        *body,
        "</svg>"])
