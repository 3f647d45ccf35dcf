"""Documents in prompts: escaped elements, which data can neither close nor open, and lists that fit."""

from __future__ import annotations

from collections.abc import Iterable

from factmem.hidden import escaped, escaped_words

__all__ = ["document", "element", "fitting", "items", "section"]


def element(tag: str, text: str, **attributes: str | None) -> str:
    """Return an element with a text and attributes, all escaped. An attribute that is None is left out."""
    written = "".join(f' {name}="{escaped(value)}"' for name, value in attributes.items() if value is not None)
    return f"<{tag}{written}>{escaped_words(text)}</{tag}>"


def section(tag: str, lines: Iterable[str]) -> str:
    """Return an element around escaped lines; empty if there are none."""
    inner = list(lines)
    return "\n".join((f"<{tag}>", *inner, f"</{tag}>")) if inner else ""


def items(tag: str, texts: Iterable[str], room: int) -> str:
    """Return an element around the first texts that fit, each as an ``item``; empty if none does."""
    return section(tag, fitting((element("item", text) for text in texts), room))


def document(*parts: str) -> str:
    """Return the document of a prompt. Empty parts are left out."""
    return "\n".join(("<document>", *filter(None, parts), "</document>"))


def fitting(lines: Iterable[str], room: int) -> list[str]:
    """Return the first lines that fit into a number of characters, each with its line end."""
    taken: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        taken.append(line)
    return taken
