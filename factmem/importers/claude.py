"""Claude: the data export, as the zip archive, its folder, or conversations.json alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from factmem.importers.contract import Found, ImportOptions, Lost, Row, Skipped, guarded
from factmem.importers.conversing import conversation
from factmem.importers.sources import Source
from factmem.scopes import MemoryScope

__all__ = ["read"]

_ROLES: Final = {"human": "user", "user": "user", "assistant": "assistant"}


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the conversations; those of a project lie in the scope of the product with its name.

    Raises:
        FileFormatError: It is not such an export, or is unsafe.
    """
    projects: dict[str, str] = {}
    for _, value in source.member_values(r"projects\.jsonl?", needed=False):
        match value:
            case {"uuid": str() as id, "name": str() as name} if name.strip():
                projects[id] = name
            case _:
                pass
    for where, value in source.member_values(r"conversations(-\d+)?\.jsonl?"):
        yield from guarded(where, _talk, where, value, projects, source, options)
    for _ in source.member_values(r"memories\.jsonl?", needed=False):
        yield Lost("the memory list, whose layout is not documented")


def _talk(
    where: str, value: Any, projects: Mapping[str, str], source: Source, options: ImportOptions
) -> Iterator[Found]:
    row = Row.of(where, value)
    rows = [*row.rows("chat_messages")]
    messages = [message for one in rows if (message := _message(one)) is not None]
    if attached := sum(len(one.items("attachments")) for one in rows):
        yield Lost("texts of attachments", attached)
    if not messages:
        yield Skipped("nothing was said in them")
        return
    project = row.text("project_uuid") or Row(row.where, row.mapping("project")).text("uuid")
    yield options.dialogue(
        conversation(row.where, messages, id=f"claude/{row.required('uuid')}"),
        where=row.where,
        changed_at=row.time("created_at") or source.changed_at(),
        scope=MemoryScope.product(projects.get(project, project)) if project else None,
    )


def _message(row: Row) -> dict[str, Any] | None:
    """Return a message as words of its speaker, or None if it holds none."""
    if (role := _ROLES.get(row.text("sender", "role") or "")) is None:
        raise row.fault("the sender is neither human nor assistant", "sender")
    # The plain text has notes in the place of tools and reasoning; the parts tell them from words.
    parts: list[Any] = [part for part in row.items("content") if isinstance(part, Mapping)]
    words = [part for part in parts if part.get("type") == "text" and part.get("text")]
    if not parts and (text := row.text("text")) is not None:
        words = [{"type": "text", "text": text}]
    words += [{"type": "file"} for _ in row.items("files")]
    if not words:
        return None
    return {"role": role, "id": row.text("uuid"), "timestamp": row.data.get("created_at"), "content": words}
