#!/usr/bin/env python3
"""Renders the terminal pictures of the documentation from real runs: docs/images/render.py GPUBUILD

Needs the package `rich`. Run it in the top folder after a change of what the commands print.
"""

import pathlib
import subprocess
import sys

from rich.console import Console
from rich.text import Text

PICTURES = {
    "detect": ["detect", "--host", "tests/hosts/ubuntu-24.04-nouveau.toml"],
    "doctor": ["doctor", "--host", "tests/hosts/ubuntu-24.04-nouveau.toml"],
}

# The default format of rich without the fonts that it loads from the network.
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px;
  line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def render(program, name, arguments):
    command = [program, *arguments, "--color", "always"]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    console = Console(record=True, width=100, file=open("/dev/null", "w", encoding="utf-8"), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(printed.rstrip("\n")))
    title = " ".join(["gpubuild", *arguments])
    path = pathlib.Path(__file__).with_name(f"{name}.svg")
    path.write_text(console.export_svg(title=title, code_format=FORMAT, unique_id=name), encoding="utf-8")


def main():
    for name, arguments in PICTURES.items():
        render(sys.argv[1], name, arguments)


if __name__ == "__main__":
    main()
