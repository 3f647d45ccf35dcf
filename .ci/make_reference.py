"""Write what of docs/ follows from the code: the reference of the commands, and llms.txt.

    python .ci/make_reference.py

`tests/meta/test_site.py` fails where a file is not what this writes.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
COMMANDS: Final = "pages/reference/commands.md"
INDEX: Final = "llms.txt"
OPTION: Final = re.compile(r"^\* `.*$", re.MULTILINE)


def main() -> None:
    (DOCS / COMMANDS).write_text(commands(), encoding="utf-8")
    (DOCS / INDEX).write_text(index(), encoding="utf-8")


def commands() -> str:
    """Return the page of the commands, from their help; a command's section leaves the global options out."""
    command = [sys.executable, "-m", "typer", "factmem.cli.app", "utils", "docs", "--name", "factmem"]
    text = html.unescape(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    _, _, text = text.partition("\n")
    text = text.replace("\n## `factmem ", "\n## `").replace("\n### `factmem ", "\n### `")
    before, options, rest = text.partition("**Commands**:")
    shared = {re.sub(r"  \[env var: .*\]", "", line) for line in OPTION.findall(before)}
    rest = "\n".join(line for line in rest.splitlines() if line not in shared)
    whole = f"# Commands\n{before}{options}{_listed(rest)}"
    whole = re.sub(r"\*\*Options\*\*:\n\n(?=\n|#|\Z)", "", whole)
    return re.sub(r"\n{3,}", "\n\n", whole).rstrip() + "\n"


def _listed(sections: str) -> str:
    """Return the sections with each list of commands linked to their sections, and their help in full."""
    helps = dict(re.findall(r"^##+ `([\w -]+)`\n\n(.*)$", sections, re.MULTILINE))
    lines, within = [], ""
    for line in sections.splitlines():
        if heading := re.match(r"##+ `([\w-]+)", line):
            within = f"{heading[1]} "
        command = re.fullmatch(r"\* `(\w[\w-]*)`: .*", line)
        name = f"{within}{command[1]}" if command else ""
        lines.append(f"* [`{name}`](#{name.replace(' ', '-')}): {helps[name]}" if name else line)
    return "\n".join(lines)


def index() -> str:
    """Return llms.txt: every page of the navigation, with its first sentence, as https://llmstxt.org describes it."""
    settings = yaml.safe_load((DOCS / "mkdocs.yml").read_text(encoding="utf-8"))
    home, *parts = settings["nav"]
    lines = ["# factmem", "", f"> {_summary(home)}", ""]
    for part in parts:
        ((title, pages),) = part.items()
        lines += [
            f"## {title}",
            "",
            *(f"- [{_title(page)}](pages/{page}): {_summary(page)}" for page in _pages(pages)),
            "",
        ]
    return "\n".join(lines)


def _pages(pages: list[Any]) -> Iterator[str]:
    for page in pages:
        if isinstance(page, str):
            yield page
        else:
            for below in page.values():
                yield from _pages(below)


def _title(page: str) -> str:
    return (DOCS / "pages" / page).read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def _summary(page: str) -> str:
    """Return the first sentence of the first paragraph, without links."""
    blocks = (DOCS / "pages" / page).read_text(encoding="utf-8").split("\n\n")[1:]
    prose = next(" ".join(block.split()) for block in blocks if re.match(r"[\w*]|`(?!`)", block))
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", prose)
    return re.split(r"(?<=[.!?:])\s(?=[A-Z`*])", plain)[0].rstrip(":")


if __name__ == "__main__":
    main()
