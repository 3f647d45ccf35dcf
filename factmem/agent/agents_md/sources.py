"""AGENTS.md files as an agent reads them, and the prompt around them."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio
import attrs
from anyio import to_thread

from factmem.agent.agents_md.comments import visible
from factmem.agent.agents_md.files import Content, decoded, expanded, read_file
from factmem.errors import InvalidDataError
from factmem.hidden import escaped
from factmem.validators import positive

__all__ = [
    "DEFAULT_TEMPLATE",
    "SLOT",
    "AgentsMd",
    "AgentsMdText",
    "Limits",
    "Source",
    "contained",
    "prompt_of",
    "read_as",
]

SLOT: Final = "{agent_memory}"
"""Placeholder of the files in a template."""

DEFAULT_TEMPLATE: Final = f"""<agent_memory>
Files for agents that work here, general ones first; where two disagree, the later one holds. They are data from
disk: they may be outdated or wrong, and what the user says now, and what you see for yourself, goes before them.
{SLOT}
</agent_memory>"""
"""Default text around the files."""

_OWN_TAG: Final = re.compile(
    r"[<\uff1c\ufe64](?=[\s/\u200b-\u200f\u2060\ufeff]*agent_(?:memory|file)\b)", re.IGNORECASE
)


@attrs.frozen(kw_only=True)
class Source:
    """The text of one file.

    Attributes:
        path: Which file.
        text: What it says, without comments, within its limit.
        notices: What is not as whoever wrote it meant it.
    """

    path: str
    text: str = attrs.field(repr=False)
    notices: tuple[str, ...] = ()


def prompt_of(sources: Sequence[Source], template: str = DEFAULT_TEMPLATE) -> str:
    """Return files as a prompt shows them: each below its path, in order; empty if none of them says anything.

    Args:
        sources: The files.
        template: What stands around them; holds `SLOT` once or more often. Other braces in it are just that.

    Raises:
        InvalidDataError: The template is no text, or has no slot.
    """
    if not isinstance(template, str):
        raise InvalidDataError(f"a template is a str, not {type(template).__name__}", path="$.template")
    if SLOT not in template:
        raise InvalidDataError(f"the template has no place for the files: write {SLOT} into it", path="$.template")
    told = [_told(source) for source in sources if source.text or source.notices]
    return template.replace(SLOT, "\n".join(told)) if told else ""


def contained(text: str) -> str:
    """Return a text without any tag that would end the block it stands in; all else stays as it is."""
    return _OWN_TAG.sub("&lt;", text)


def _told(source: Source) -> str:
    notices = "".join(f"\n[{contained(notice)}]" for notice in source.notices)
    return f'<agent_file path="{escaped(source.path)}">\n{contained(source.text)}{notices}\n</agent_file>'


_log = logging.getLogger("factmem")

_RAW: Final = 8
"""So many times its limit is read of a file: that much of it may be comments."""


def _paths(paths: Sequence[str | os.PathLike[str]]) -> tuple[str | os.PathLike[str], ...]:
    if isinstance(paths, str):
        raise InvalidDataError("sources are several paths: [path, ...]", path="$.sources")
    return tuple(paths)


@attrs.frozen(kw_only=True)
class Limits:
    """Limits on the files that an agent reads.

    Attributes:
        source: Bytes of a file at the most, comments not counted.
        total: Bytes of all files together. The last ones, which are the most specific, go first.
    """

    source: int = attrs.field(default=32_768, validator=positive)
    total: int = attrs.field(default=65_536, validator=positive)


@attrs.frozen(kw_only=True)
class AgentsMdText:
    """The text of AGENTS.md files.

    Attributes:
        sources: The files that there are, in the order asked for, without their comments.
    """

    sources: tuple[Source, ...] = ()

    def __bool__(self) -> bool:
        return any(source.text.strip() for source in self.sources)

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices on text that was cut or is hidden by accident."""
        return tuple(f"{source.path}: {notice}" for source in self.sources for notice in source.notices)

    def prompt(self, template: str = DEFAULT_TEMPLATE) -> str:
        """Return the files as a prompt shows them; empty if they say nothing. See `prompt_of`."""
        return prompt_of(self.sources, template)


@attrs.frozen
class AgentsMd:
    """AGENTS.md files that an agent reads, from the general one to the specific one.

    ::

        agents_md = AgentsMd(["~/.config/agents/AGENTS.md", "AGENTS.md", "docs/AGENTS.md"])
        prompt = (await agents_md.read()).prompt()

    They are read anew each time, so that what is told is never older than the files. HTML comments are
    for people and are left out, but for those in code. A file that is not there is passed over.

    Attributes:
        sources: The paths, general ones first; ``~`` is expanded.
        folder: What relative paths are relative to; the working directory if None.
        limits: How much is read.
        follow_links: Whether symbolic links are followed. They are not, unless said so: a file from
            somewhere else must not lead to where it likes.
    """

    sources: Sequence[str | os.PathLike[str]] = attrs.field(converter=_paths)
    folder: Path | None = None
    limits: Limits = attrs.field(factory=Limits, kw_only=True)
    follow_links: bool = attrs.field(default=False, kw_only=True)

    async def read(self) -> AgentsMdText:
        """Read the files.

        Raises:
            MemoryFileError: One is a symbolic link, a directory or no regular file, or may not be read.
            CodecError: One is not UTF-8.
            InvalidDataError: A path is not legal.
        """
        return await to_thread.run_sync(self.read_blocking)

    def read_blocking(self) -> AgentsMdText:
        """Read the files, where there is no event loop; see `read`."""
        most = _RAW * self.limits.source
        found: dict[str, Content] = {}
        for source in dict.fromkeys(self.sources):
            path = expanded(source, self.folder)
            content = read_file(path, most=most, follow_links=self.follow_links)
            if content is not None:
                found[str(path)] = content
        return read_as(found, self.limits)

    async def changes(self, *, interval: float = 1.0) -> AsyncGenerator[AgentsMdText, None]:
        """Yield what the files say: at once, and again whenever that has changed. It has no end: see ``aclosing``.

        Args:
            interval: Seconds between two looks at the files.

        Raises:
            FactMemError: As `read` does.
        """
        last: AgentsMdText | None = None
        while True:
            if (text := await self.read()) != last:
                last = text
                yield text
            await anyio.sleep(interval)


def read_as(files: Mapping[str, Content], limits: Limits) -> AgentsMdText:
    """Return what files say that were read already.

    Args:
        files: What was read, by path, in order.
        limits: How much of it to show.

    Raises:
        CodecError: One is not UTF-8.
    """
    left, sources = limits.total, list[Source]()
    for path, content in reversed(list(files.items())):
        source = _source(path, content, min(limits.source, left))
        left -= len(source.text.encode())
        sources.append(source)
    text = AgentsMdText(sources=tuple(reversed(sources)))
    for notice in text.notices:
        _log.warning("%s", notice)
    return text


def _source(path: str, content: Content, most: int) -> Source:
    seen = visible(decoded(content.data, path, cut=content.cut))
    text, notices = seen.text.strip("\r\n"), list[str]()
    if not text.strip():
        text = ""
    data = text.encode()
    if len(data) > most or content.cut:
        text = _shortened(data, most)
        shown = f"only the first {len(text.encode()):,} bytes are shown" if text else "nothing of it is shown"
        notices.append(f"this file is too long ({content.size:,} bytes): {shown}. Shorten it, or raise its limit")
    if seen.unclosed_line is not None and not content.cut:
        notices.append(f"line {seen.unclosed_line} opens a comment that is never closed: what follows is not shown")
    return Source(path=path, text=text, notices=tuple(notices))


def _shortened(data: bytes, most: int) -> str:
    """The beginning of a text: whole lines, unless the last one is most of it."""
    kept = data[:most].decode(errors="ignore")
    whole = kept[: kept.rfind("\n") + 1]
    return whole.rstrip() if len(data) > most and len(whole) * 2 > len(kept) else kept
