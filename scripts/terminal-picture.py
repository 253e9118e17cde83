#!/usr/bin/env python3
"""Draws what a command prints in colour as an SVG picture.

Usage: terminal-picture.py COLUMNS LINES COMMAND... >picture.svg

COMMAND must print colours though it writes to a pipe (tcpwhy: --color always). COLUMNS is given to it
as its width; LINES is how many lines of the output are shown, 0 for all of them.
"""

import html
import os
import re
import subprocess
import sys

CELL_WIDTH, LINE_HEIGHT, MARGIN = 7.8, 17, 14
BACKGROUND, FOREGROUND = "#1c1f26", "#d7dae0"
# The colours of SGR 30 to 37 and 90 to 97 (ECMA-48 §8.3.117).
COLOURS = {
    30: "#5c6370", 31: "#ef7b84", 32: "#98c379", 33: "#e5c07b",
    34: "#6cb6ff", 35: "#d291e4", 36: "#5fc6d0", 37: FOREGROUND,
    90: "#8b93a1", 91: "#ef7b84", 92: "#98c379", 93: "#e5c07b",
    94: "#6cb6ff", 95: "#d291e4", 96: "#5fc6d0", 97: "#ffffff",
}


def runs(line):
    """Splits a line into pieces of text with the style that SGR sequences give them."""
    style = {}
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if not piece.startswith("\x1b"):
            if piece:
                yield piece, dict(style)
            continue
        for code in (int(code or 0) for code in piece[2:-1].split(";")):
            if code == 0:
                style = {}
            elif code == 1:
                style["font-weight"] = "bold"
            elif code == 2:
                style["opacity"] = "0.65"
            elif code == 22:
                style.pop("font-weight", None)
                style.pop("opacity", None)
            elif code in COLOURS:
                style["fill"] = COLOURS[code]
            elif code == 39:
                style.pop("fill", None)


def main():
    columns, lines = int(sys.argv[1]), int(sys.argv[2])
    environment = dict(os.environ, COLUMNS=str(columns), TERM="xterm-256color", LC_ALL="C.UTF-8")
    # tcpwhy ends with 1 where it found faults.
    output = subprocess.run(sys.argv[3:], env=environment, stdout=subprocess.PIPE, check=False)
    if output.returncode > 1:
        sys.exit(output.returncode)
    text = output.stdout.decode().rstrip("\n").split("\n")
    text = text[:lines] if lines else text
    width = columns * CELL_WIDTH + 2 * MARGIN
    height = len(text) * LINE_HEIGHT + 2 * MARGIN
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" '
        f'font-size="13" fill="{FOREGROUND}">'
    )
    print(f'<rect width="100%" height="100%" rx="6" fill="{BACKGROUND}"/>')
    for number, line in enumerate(text):
        y = MARGIN + (number + 0.75) * LINE_HEIGHT
        at = 0
        for piece, style in runs(line):
            # Each piece has its own place and length, so that no font shifts the columns; spaces of
            # an SVG picture collapse unless they do not break.
            x, length = MARGIN + at * CELL_WIDTH, len(piece) * CELL_WIDTH
            at += len(piece)
            if not piece.strip():
                continue
            shown = html.escape(piece).replace(" ", "\u00a0")
            attributes = "".join(f' {name}="{value}"' for name, value in style.items())
            print(
                f'<text x="{x:g}" y="{y:g}" textLength="{length:g}" '
                f'lengthAdjust="spacingAndGlyphs"{attributes}>{shown}</text>'
            )
    print("</svg>")


if __name__ == "__main__":
    main()
