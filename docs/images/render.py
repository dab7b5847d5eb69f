#!/usr/bin/env python3
"""Renders the terminal pictures of the documentation from real runs: docs/images/render.py GPUBUILD [PICTURE...]

Needs the package `rich`. Run it in the top folder after a change of what the commands print. The picture `build` removes the build folder
of the project and builds it again, so it takes a minute or two.
"""

import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl

from rich.console import Console
from rich.text import Text

PICTURES = {
    "detect": ["detect", "--host", "tests/hosts/ubuntu-24.04-nouveau.toml"],
    "doctor": ["doctor", "--host", "tests/hosts/ubuntu-24.04-nouveau.toml"],
    "build": ["build", "--backends", "cpu,vulkan", "--run"],
}
COLUMNS = 100

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


def piped(command):
    return subprocess.run([*command, "--color", "always"], stdout=subprocess.PIPE, text=True, check=False).stdout


def in_terminal(command):
    """Everything that a command prints on a terminal, in order."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", GPUBUILD_STORE="off")
        ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        os.execvp(command[0], command)
    printed = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        printed += part
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{' '.join(command)} failed:\n{printed.decode()}")
    return printed.decode()


def shown(printed):
    """The lines that remain on the screen. A progress bar, which would be erased, is shown half-way; a long line is cut."""
    lines = []
    for line in printed.split("\n"):
        frames = [frame.rstrip() for frame in re.split(r"\r(?:\x1b\[2K)?", line) if frame.strip()]
        counts = [(re.search(r"\] (\d+)/(\d+) ", frame), frame) for frame in frames]
        steps = [(int(count[1]) * 2 >= int(count[2]), frame) for count, frame in counts if count]
        if len(steps) > 1:
            lines.append(next((frame for is_half, frame in steps if is_half), steps[0][1]))
        if frames:
            lines.append(frames[-1] if len(frames[-1]) <= 3 * COLUMNS else frames[-1][: 2 * COLUMNS].rsplit(". ", 1)[0] + ". …")
    return "\n".join(lines).replace(os.getcwd(), "~/gpubuild").replace(str(pathlib.Path.home()), "~")


def render(program, name, arguments):
    if name == "build":
        subprocess.run([program, "clean"], check=True)
        printed = shown(in_terminal([program, *arguments]))
    else:
        printed = piped([program, *arguments])
    console = Console(record=True, width=COLUMNS, file=open("/dev/null", "w", encoding="utf-8"), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(printed.rstrip("\n")))
    title = " ".join(["gpubuild", *arguments])
    path = pathlib.Path(__file__).with_name(f"{name}.svg")
    path.write_text(console.export_svg(title=title, code_format=FORMAT, unique_id=name), encoding="utf-8")


def main():
    for name, arguments in PICTURES.items():
        if name in (sys.argv[2:] or PICTURES):
            render(sys.argv[1], name, arguments)


if __name__ == "__main__":
    main()
