"""Write what of docs/ follows from the code: the reference of the commands, the API at a glance, and llms.txt.

    python .ci/make_reference.py

`tests/meta/test_site.py` fails where a file is not what this writes.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import griffe
import yaml

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
COMMANDS: Final = "pages/reference/commands.md"
INDEX: Final = "llms.txt"
GLANCE: Final = "## At a glance"
SENTENCE_END: Final = r"(?<=[.!?])\s(?=[A-Z`*])"
TARGET: Final = re.compile(r"^::: (\S+)$", re.MULTILINE)
OPTION: Final = re.compile(r"^\* `.*$", re.MULTILINE)


def main() -> None:
    for path, text in written().items():
        (DOCS / path).write_text(text, encoding="utf-8")


def written() -> dict[str, str]:
    """Return the texts by their paths in docs/."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted((DOCS / "pages").rglob("*.md"))}
    library = Library(name for text in pages.values() for name in TARGET.findall(text))
    glances = {
        path.relative_to(DOCS).as_posix(): with_glance(text, library)
        for path, text in pages.items()
        if TARGET.search(text)
    }
    return {COMMANDS: commands(), INDEX: index(), **glances}


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


class Library:
    """The packages as griffe reads them, which the site is built with.

    Args:
        targets: Paths of everything that the pages describe.
    """

    def __init__(self, targets: Iterable[str]) -> None:
        self._loader = griffe.GriffeLoader(search_paths=[str(ROOT), str(ROOT / "providers")])
        self._described = {found.canonical_path for name in targets for found in self._described_by(self.target(name))}

    @staticmethod
    def _described_by(found: Any) -> list[Any]:
        return [found[name] for name in public_names(found)] if found.is_module else [found]

    def target(self, name: str) -> Any:
        """Return a module, class or function by its path."""
        package, _, rest = name.partition(".")
        found = self._loader.modules_collection.members.get(package) or self._loader.load(package)
        return found[rest] if rest else found

    def inherited(self, cls: Any) -> list[Any]:
        """Return what a class has from base classes that no page describes, except specs of the conformance kit."""
        members = [found for found in cls.inherited_members.values() if not found.name.startswith("test_")]
        return [found for found in members if found.final_target.parent.canonical_path not in self._described]


def public_names(module: Any) -> list[str]:
    """Return what a package lists, or what a module defines and describes."""
    if module.exports is not None:
        return [str(name) for name in module.exports]
    own = (found for found in module.members.values() if not found.is_alias and found.is_public)
    return [found.name for found in own if found.has_docstring]


def with_glance(page: str, library: Library) -> str:
    """Return a page of the API with the signatures and first sentences of what the site describes on it.

    They stand before the directives, which say nothing to a reader of the file.
    """
    intro = re.split(rf"^(?:{GLANCE}$|::: )", page, maxsplit=1, flags=re.MULTILINE)[0]
    targets = TARGET.findall(page)
    lines = [line for name in targets for line in _glance(name, library)]
    directives = "\n\n".join(_directive(name, library) for name in targets)
    return f"{intro}{GLANCE}\n\n" + "\n".join(lines) + f"\n\n{directives}\n"


def _directive(name: str, library: Library) -> str:
    """Return the directive by which the site describes something, with what it inherits where no page has that."""
    found = library.target(name)
    if found.is_class and any(_is_shown(member) for member in library.inherited(found)):
        return f"::: {name}\n    options:\n      inherited_members: true"
    return f"::: {name}"


def _glance(name: str, library: Library) -> Iterator[str]:
    """Yield an entry of the list; of a module, one for each of its public names."""
    found = library.target(name)
    if not found.is_module:
        yield from _entry(name, found, library)
        return
    yield f"- `{name}`{_sentence(found)}"
    for public in sorted(public_names(found), key=str.casefold):
        yield from ("    " + line for line in _entry(public, found[public], library))


def _entry(name: str, found: Any, library: Library) -> Iterator[str]:
    """Yield the entry of a class with its methods, of a function or of a constant."""
    found = found.final_target if found.is_alias else found
    if found.is_class:
        yield f"- `{name}{_fields(found)}`{_sentence(found)}"
        own = [member for member in found.members.values() if not member.is_alias]
        for member in filter(_is_shown, [*library.inherited(found), *own]):
            shown = _called(member) if member.is_function else f"{member.name}: {member.annotation}"
            yield f"    - `{shown}`{_sentence(member)}"
    elif found.is_function:
        yield f"- `{_called(found, name)}`{_sentence(found)}"
    else:
        yield f"- `{name}`{_sentence(found)}"


def _is_shown(member: Any) -> bool:
    """Return whether a member of a class is a public method or property with a docstring."""
    is_public = not member.name.startswith("_") and member.has_docstring
    return is_public and (member.is_function or "property" in member.labels)


def _fields(cls: Any) -> str:
    """Return the arguments of a class: those of its ``__init__``, or the fields of an attrs class."""
    if any("Enum" in str(base) for base in cls.bases):
        names = [member.name for member in cls.members.values() if member.is_attribute and member.name.isupper()]
        return f": {', '.join(names)}" if names else ""
    if (init := cls.members.get("__init__")) is not None and init.is_function:
        return f"({_parameters(init)})"
    by_place: list[str] = []
    by_name: list[str] = []
    all_by_name = any("kw_only=True" in str(decorator.value) for decorator in cls.decorators)
    for field in cls.members.values():
        if not (field.is_attribute and "instance-attribute" in field.labels and "property" not in field.labels):
            continue
        if field.name.startswith("_") or field.annotation is None or "init=False" in str(field.value):
            continue
        several = by_name if all_by_name or "kw_only=True" in str(field.value) else by_place
        several.append(f"{field.name}: {field.annotation}{' = …' if _is_optional(field) else ''}")
    fields = [*by_place, *(["*", *by_name] if by_name else ())]
    return f"({', '.join(fields)})" if fields else ""


def _is_optional(field: Any) -> bool:
    """Return whether a field of a class has a default."""
    value = str(field.value or "")
    return bool(value) and (
        not value.startswith("attrs.field(") or re.search(r"\b(default|factory)=", value) is not None
    )


def _called(function: Any, name: str = "") -> str:
    waits = "await " if "async" in function.labels else ""
    result = f" -> {function.returns}" if function.returns is not None else ""
    return f"{waits}{name or function.name}({_parameters(function)}){result}"


def _parameters(function: Any) -> str:
    parts, keywords = [], False
    for parameter in function.parameters:
        if parameter.name in ("self", "cls"):
            continue
        kind = parameter.kind.name if parameter.kind else ""
        if kind == "keyword_only" and not keywords:
            parts.append("*")
        keywords = keywords or kind in ("keyword_only", "var_positional")
        stars = {"var_positional": "*", "var_keyword": "**"}.get(kind, "")
        annotation = f": {parameter.annotation}" if parameter.annotation is not None else ""
        default = f" = {parameter.default}" if parameter.default is not None and not stars else ""
        parts.append(f"{stars}{parameter.name}{annotation}{default}")
    return ", ".join(parts)


def _sentence(found: Any) -> str:
    """Return the first sentence of a docstring, after a colon; empty if it has none."""
    if not found.has_docstring:
        return ""
    first = " ".join(found.docstring.value.split("\n\n")[0].split())
    return f": {re.split(SENTENCE_END, first)[0]}"


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
    return re.split(rf"{SENTENCE_END}|(?<=:)\s(?=[A-Z`*])", plain)[0].rstrip(":")


if __name__ == "__main__":
    main()
