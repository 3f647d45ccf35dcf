"""Memories of other systems: each is a table of keys (`Fields`) and the few rules of its own.

Readers are functions of a `Source` and `ImportOptions`; `factmem.importers.systems` names them.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import attrs

from factmem.details import Evidence, Origin
from factmem.errors import FileFormatError, InvalidDataError, MissingPackageError
from factmem.facts import STATEMENT, Concept
from factmem.importers.contract import Found, ImportOptions, Lost, Problem, Skipped, individual, scope_at
from factmem.importers.documents import blocks, is_document
from factmem.importers.rows import Fields, Row, converted, guarded, parsed
from factmem.importers.sources import Source
from factmem.records import AssertionState
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

# -- mem0 -------------------------------------------------------------------------------------------------------------

_MEM0_FILES: Final = ("get_all.json", "mem0_get_all.json", "memories.json", "get_all.jsonl", "memories.jsonl")
_MEM0_LISTS: Final = ("results", "memories")
_MEM0_COLUMNS: Final = ("memory_id", "new_memory", "event", "created_at", "updated_at", "is_deleted")
_ORDER: Final = "memory_id, created_at, updated_at, rowid"
_ORIGINS: Final = {"user": Origin.USER, "assistant": Origin.ASSISTANT}

_MEM0: Final = Fields.of("mem0")
_UPDATE: Final = Fields.of("mem0", value="new_memory", overwritten="")
_ADDITION: Final = Fields.of("mem0", value="new_memory", overwritten="", said="created_at updated_at")


def read_mem0(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the memories of a ``get_all()``, each after its earlier texts if there is a ``history.db``.

    The local Qdrant of mem0 keeps its points as pickles, which are never read: write ``get_all()`` to a file instead.

    The history knows texts and times, ``get_all()`` users, agents and metadata: a folder with both joins them.

    Raises:
        FileFormatError: It is neither.
    """
    if source.is_folder:
        history, memories = source.file("history.db"), source.file(*_MEM0_FILES)
    else:
        history, memories = (source.path, None) if source.is_database() else (None, source.path)
    if history is None and memories is None:
        raise FileFormatError(
            f"{source.path} holds neither history.db nor {_MEM0_FILES[0]}: write the answer of get_all() to that file "
            "(the folder of Qdrant holds pickles, which are not read)"
        )
    known: dict[str, Row] = {}
    if history is not None:
        for row in () if memories is None else source.rows(memories, *_MEM0_LISTS):
            if isinstance(row, Row) and "id" in row.data:
                known[str(row.data["id"])] = Row(row.where, {**row.data, "memory": None})
        rows = source.table("history", _MEM0_COLUMNS, order=_ORDER, path=history)
        for id, changes in groupby(rows, key=lambda row: str(row.data["memory_id"])):
            own = [*changes]
            about = known.pop(id, None)
            yield from guarded(own[0].where, _changes, own, about, options, answered=memories is not None)
    if memories is not None:
        rest = (
            row
            for row in source.rows(memories, *_MEM0_LISTS)
            if history is None or not isinstance(row, Row) or str(row.data.get("id")) in known
        )
        yield from converted(rest, lambda row: _memory_in_answer(row, options))


def _memory_in_answer(row: Row, options: ImportOptions) -> Iterator[Found]:
    """Yield a memory of ``get_all()``, whose history is not known."""
    as_said = row.time("updated_at", "created_at") == row.time("created_at")
    yield from _MEM0.found(row, options, **_about(row, row.text("memory") if as_said else None))


def _about(row: Row, said: str | None) -> dict[str, Any]:
    """Return the place and details of a memory; its text is evidence as it was said, not as it was changed later."""
    user, agent = row.text("user_id"), row.text("agent_id")
    role, run = row.text("role"), row.text("run_id")
    metadata = dict(row.inner("metadata").data)
    if run is not None and role is None:  # there are no words to be evidence of the run
        metadata.setdefault("run_id", run)
    evidence: tuple[Evidence, ...] = ()
    if said is not None and role is not None:
        evidence = (Evidence(quote=said, role=role, speaker=row.text("actor_id"), conversation_id=run),)
    return {
        "subject": individual(user) if user else None,
        "scope": MemoryScope.agent(agent) if agent else None,
        "metadata": metadata,
        "origin": _ORIGINS.get(role or "", Origin.UNKNOWN),
        "evidence": evidence,
    }


def _changes(rows: Sequence[Row], about: Row | None, options: ImportOptions, *, answered: bool) -> Iterator[Found]:
    """Yield the texts of one memory, oldest first.

    Args:
        rows: Its history.
        about: All that ``get_all()`` knows of it.
        options: Choices of the person who imports.
        answered: Whether there is an answer of ``get_all()``, which may have left it out.
    """
    deleted = any(row.flag("is_deleted") or row.data.get("event") == "DELETE" for row in rows)
    if deleted and not options.with_deleted:
        yield Skipped("they were deleted there (--with-deleted keeps them as history)")
        return
    if about is None and answered and not deleted:
        yield Lost("users and agents of memories that get_all() left out (ask it for more: top_k=100000)")
    texts = [row for row in rows if row.data.get("event") != "DELETE"]

    def change(row: Row) -> Iterator[Found]:
        updated = row.data.get("event") == "UPDATE"
        yield from (_UPDATE if updated else _ADDITION).found(
            row,
            options,
            about=about,
            record=row.required("memory_id"),
            revises=row is not texts[0],
            state=AssertionState.RETRACTED if deleted else AssertionState.ACTIVE,
            **_about(about or row, None if updated else row.text("new_memory")),
        )

    yield from converted(texts, change)


# -- CrewAI -----------------------------------------------------------------------------------------------------------

_TABLE: Final = "memories"
_ROWS_AT_ONCE: Final = 500

_RECORD: Final = Fields.of("crewai")


def read_crewai(source: Source, options: ImportOptions) -> Iterator[Found]:
    r"""Yield the records of the LanceDB table that CrewAI's memory keeps, or the same records as JSON Lines.

    To write JSON Lines where CrewAI is installed::

        rows = LanceDBStorage(path="memory").list_records(limit=1_000_000)
        Path("memories.jsonl").write_text("".join(row.model_dump_json() + "\n" for row in rows), "utf-8")

    Raises:
        FileFormatError: It is neither such a table nor a file of records.
        MissingPackageError: A table is to be read, and lancedb is not installed.
    """
    rows = _table_rows(source) if source.is_folder else source.rows(source.path, "records", _TABLE)
    yield from converted(rows, lambda row: _record(row, options))


def _table_rows(source: Source) -> Iterator[Row]:
    with MissingPackageError.if_missing("lancedb", extra="import-crewai"):
        import lancedb  # pyright: ignore[reportMissingImports]
    folder, name = _table(source.path)
    try:
        table = lancedb.connect(str(folder)).open_table(name)
        columns = [column for column in table.schema.names if column != "vector"]
        number = 0
        for batch in table.search().select(columns).to_batches(_ROWS_AT_ONCE):
            for row in batch.to_pylist():
                number += 1
                yield Row(f"row {number} of {name}", row)
    except (OSError, ValueError, RuntimeError) as error:
        raise FileFormatError(f"{source.path} cannot be read as a LanceDB table: {type(error).__name__}") from None


def _table(folder: Path) -> tuple[Path, str]:
    if folder.suffix == ".lance":
        return folder.parent, folder.stem
    if not (folder / f"{_TABLE}.lance").is_dir():
        raise FileFormatError(f"{folder} holds no {_TABLE}.lance: name the folder of CrewAI's memory storage")
    return folder, _TABLE


def _record(row: Row, options: ImportOptions) -> Iterator[Found]:
    data: dict[str, Any] = {}
    for name, value in row.data.items():  # the table keeps lists and objects as texts of JSON
        written = name.endswith("_str") and isinstance(value, str)
        data[name.removesuffix("_str")] = parsed(value, f"{row.where}.{name}") if written else value
    record = Row(row.where, data)
    private, path = record.flag("private"), record.text("scope")
    owner = record.text("source") or options.owner
    if private and owner is None:
        raise record.fault("the record is private and has no source: name its owner with --viewer", "private")
    yield from _RECORD.found(
        record,
        options,
        scope=MemoryScope.parse(path) if path and path.strip("/") else None,
        owner=owner if private else None,
    )
    if data.keys() != row.data.keys():  # a row of the table
        yield Lost("vectors, which are computed anew")
    if data.get("last_accessed") not in (None, data.get("created_at")):
        yield Lost("times of the last access")


# -- Graphiti and Zep -------------------------------------------------------------------------------------------------

_GRAPHITI_FILES: Final = ("nodes", "episodes", "edges")
_GRAPHITI_LISTS: Final = ("nodes", "episodes", "edges", "facts")
_EPISODE_CHARS: Final = 32 * 1024 * 1024
"""Characters of episodes that are held to look for the words of facts."""

_EDGE: Final = Fields.of("graphiti")


def read_graphiti(source: Source, options: ImportOptions) -> Iterator[Found]:
    r"""Yield the edges of a graph, as JSON or JSON Lines, as facts about the node that they start from.

    There is no official export file. To write one where Graphiti runs::

        edges = await EntityEdge.get_by_group_ids(graphiti.driver, ["acme"])
        Path("edges.jsonl").write_text("".join(edge.model_dump_json() + "\n" for edge in edges), "utf-8")

    ``nodes.jsonl`` (of ``EntityNode``) names the subjects, and ``episodes.jsonl`` (of ``EpisodicNode``) holds the words
    that facts come from. They stand beside it, or all three in one file. An edge whose node is in none of them is about
    ``entity:UUID``.

    Raises:
        FileFormatError: The folder holds no edges, or a file cannot be read.
    """
    graph = _Graph(options)
    paths = source.together(*_GRAPHITI_FILES)
    if source.is_folder and not any(path.stem == "edges" for path in paths):
        raise FileFormatError(f"{source.path} holds no edges.jsonl: write the edges of EntityEdge.get_by_group_ids()")
    # Edges name nodes and episodes that may stand behind them, or in other files.
    for path in paths:
        for row in source.rows(path, *_GRAPHITI_LISTS):
            if isinstance(row, Row):
                graph.learn(row)
    for path in paths:
        yield from converted(source.rows(path, *_GRAPHITI_LISTS), graph.facts)


@attrs.define
class _Graph:
    """The nodes and episodes, by id."""

    options: ImportOptions
    nodes: dict[str, tuple[str, str]] = attrs.field(factory=dict)
    episodes: dict[str, str] = attrs.field(factory=dict)
    held: int = 0

    def learn(self, row: Row) -> None:
        """Remember a node or an episode. A malformed one is left to `facts` to report."""
        match row.data:
            case {"fact": _}:
                pass
            case {"uuid": str() as id, "content": str() as content} if self.held + len(content) <= _EPISODE_CHARS:
                self.episodes[id] = content
                self.held += len(content)
            case {"uuid": str() as id, "name": str() as name, "labels": list() as labels}:
                kinds = [label for label in labels if isinstance(label, str) and label != "Entity"]
                self.nodes[id] = (kinds[0].lower() if kinds else "entity", name)
            case _:
                pass

    def facts(self, row: Row) -> Iterator[Found]:
        """Yield the fact of an edge, or what a node or an episode has that is lost."""
        match row.data:
            case {"fact": _}:
                yield from self._fact(row)
            case {"content": _}:
                yield Lost("episodes as such (the words of a fact that stand in one are its evidence)")
            case {"labels": _} | {"summary": _}:
                if row.text("summary"):
                    yield Lost("summaries of nodes")
            case _:
                raise row.fault("neither an edge with a fact, nor a node, nor an episode")

    def _fact(self, row: Row) -> Iterator[Found]:
        group, target = row.text("group_id"), self.nodes.get(row.text("target_node_uuid") or "")
        yield from _EDGE.found(
            row,
            self.options,
            concept=Concept.multiple((row.text("name") or "relates to").lower(), "A relation in a graph of Graphiti"),
            subject=self._subject(row),
            scope=scope_at(("customer", group), self.options.scope) if group else None,
            state=AssertionState.ACTIVE if row.time("expired_at") is None else AssertionState.RETRACTED,
            metadata=dict(row.inner("attributes").data) | ({"target": target[1]} if target else {}),
            evidence=tuple(self._evidence(row, row.text("fact") or "")),
        )
        if (node := row.text("source_node_uuid")) is not None and node not in self.nodes:
            yield Lost("names of nodes that no file holds: their facts are about entity:UUID (add nodes.jsonl)")

    def _subject(self, row: Row) -> MemorySubject | None:
        if (id := row.text("source_node_uuid")) is None:
            return None
        kind, name = self.nodes.get(id, ("entity", id))
        return individual(name, of=kind)

    def _evidence(self, row: Row, text: str) -> Iterator[Evidence]:
        for id in row.texts("episodes"):
            if (start := self.episodes.get(id, "").find(text)) >= 0:
                yield Evidence(quote=text, message_id=id, start=start, end=start + len(text))


# -- Letta ------------------------------------------------------------------------------------------------------------

_SAYING: Final = "send_message"
"""The tool by which agents of earlier versions speak; the text of such a message is what the agent thought."""

_LINE: Final = Fields.of("letta")


def read_letta(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield each line of the blocks as a statement of the agent, and the messages as a conversation.

    Agent files (``.af``) hold memory blocks and the last messages.

    Raises:
        FileFormatError: It is not an agent file.
    """
    file = source.document(source.needed("agent.af"))
    agents = [*file.rows("agents")] if "agents" in file.data else [file]
    if not any(key in file.data for key in ("agents", "core_memory", "messages")):
        raise FileFormatError(f"{source.path} holds no agents: is it an agent file of Letta?")
    blocks = {block.text("id"): block for block in file.rows("blocks")}
    yield from converted(agents, lambda agent: _agent(agent, blocks, source, options))
    lists = [ids for agent in agents if isinstance(ids := agent.data.get("block_ids"), list)]
    listed = {id for ids in lists for id in ids if isinstance(id, str)}
    if unlisted := sum(id not in listed for id in blocks) if listed else 0:
        yield Skipped("they are blocks that no agent lists", unlisted)
    for key, what in (("tools", "tools"), ("files", "files"), ("sources", "sources of files")):
        if count := len(file.items(key)):
            yield Lost(what, count)


def _agent(agent: Row, blocks: Mapping[str | None, Row], source: Source, options: ImportOptions) -> Iterator[Found]:
    name = agent.text("name") or "letta"
    own = [blocks[id] for id in agent.texts("block_ids") if id in blocks] or [*agent.rows("core_memory")]
    yield from converted(own, lambda block: _block(block, name, source, options))
    yield Lost("archival memory, which an agent file does not hold")
    said = [message for row in agent.rows("messages") if (message := _message(row)) is not None]
    if said:
        yield Lost("messages before the last ones, which an agent file does not hold")
        yield from options.dialogue(
            said,
            where=agent.where,
            id=f"letta/{agent.text('id') or name}",
            changed_at=source.changed_at(),
            scope=MemoryScope.agent(name),
        )


def _block(block: Row, agent: str, source: Source, options: ImportOptions) -> Iterator[Found]:
    label = block.required("label")
    lines = [line.strip() for line in (block.text("value") or "").splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        yield from _LINE.found(
            Row(f"{block.where}.value line {number}", {}),
            options,
            values=(line,),
            undated=source.changed_at(),
            subject=_subject(label, agent, options),
            scope=MemoryScope.agent(agent),
            categories=(label,),
        )


def _subject(label: str, agent: str, options: ImportOptions) -> MemorySubject:
    match label:
        case "human":
            return options.subject if options.subject != MemorySubject.EVERYTHING else MemorySubject("user")
        case "persona":
            return individual(agent, of="agent")
        case _:
            return options.subject


def _message(row: Row) -> dict[str, Any] | None:
    """Return a message as words of its speaker, or None if nobody said it."""
    role = row.text("role")
    spoken = [text for call in row.rows("tool_calls") if (text := _sent(call)) is not None]
    if role == "assistant" and spoken:
        content: Any = "\n".join(spoken)
    elif role in ("user", "assistant") and not row.items("tool_calls"):
        content = row.data.get("content", row.data.get("text"))
    else:
        return None
    if role == "user":
        content = _unwrapped(content)
    return None if content is None else {"role": role, "content": content, "timestamp": row.data.get("created_at")}


def _sent(call: Row) -> str | None:
    """Return what a call of the tool by which agents speak says; None for any other call."""
    function = call.inner("function").data
    arguments = _json_in(function.get("arguments")) if function.get("name") == _SAYING else None
    return str(arguments["message"]) if isinstance(arguments, dict) and "message" in arguments else None


def _unwrapped(content: Any) -> Any:
    """Return the words of a user, which Letta wraps in JSON; None for an event that nobody said."""
    match content:
        case (str() as text) | [{"text": str() as text}]:
            pass
        case _:
            return content
    match _json_in(text):
        case {"type": "user_message", "message": str() as message}:
            return message
        case {"type": str()}:
            return None
        case _:
            return text


def _json_in(text: object) -> Any:
    """Return the value of a text of JSON; None for any other text."""
    try:
        return json.loads(str(text))
    except (ValueError, RecursionError):
        return None


# -- MCP reference server ---------------------------------------------------------------------------------------------

_WRITTEN: Final = Fields.of("mcp-memory")


def read_mcp_memory(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the observations about entities, and their relations, as the assistant's: it wrote the file.

    The reference server keeps ``memory.jsonl``, a graph of entities with observations and relations.

    Raises:
        FileFormatError: The file cannot be read.
    """
    path = source.needed("memory.jsonl", "memory.json")
    changed_at = source.changed_at(path)
    subjects: dict[str, MemorySubject] = {}

    def facts(row: Row) -> Iterator[Found]:
        match row.text("type"):
            case "entity":
                name = row.required("name")
                subjects[name] = individual(name, of=row.text("entityType") or "entity")
                if not (texts := row.texts("observations")):
                    yield Skipped("they are entities without observations")
                for text in texts:
                    yield from _WRITTEN.found(row, options, values=(text,), subject=subjects[name], undated=changed_at)
            case "relation":
                start, end, kind = row.required("from"), row.required("to"), row.required("relationType")
                yield from _WRITTEN.found(
                    row,
                    options,
                    concept=Concept.multiple(kind, "A relation between entities"),
                    values=(end,),
                    subject=subjects.get(start) or individual(start, of="entity"),
                    undated=changed_at,
                )
            case _:
                raise row.fault("neither an entity nor a relation", "type")

    with source.text(path) as text:
        yield from converted(source.json_lines(text), facts)


# -- Google's Memory Bank ---------------------------------------------------------------------------------------------

_MEMORY_BANK_LISTS: Final = ("memories", "memoryRevisions", "memory_revisions", "revisions")
_REVISION: Final = "/revisions/"
_USERS: Final = ("user_id", "user", "userId")
_AGENTS: Final = ("agent_id", "agent", "agentId", "agent_name", "app_name", "appName")

_BANKED: Final = Fields.of("memory-bank")


def read_memory_bank(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the memories, each after its earlier revisions if they are given.

    The answers to ``memories.list`` and ``memories.revisions.list``, as JSON of the REST API or Google's client, stand
    in one file, or in memories.json and revisions.json beside each other.

    Raises:
        FileFormatError: The file cannot be read.
    """
    paths = source.together("memories", "revisions")
    if not paths:
        raise FileFormatError(f"{source.path} holds no memories.json: write the answer of memories.list to it")

    def rows() -> Iterator[Row | Problem | Skipped]:
        for path in paths:
            for row in source.rows(path, *_MEMORY_BANK_LISTS):
                yield Row(row.where, dict(_camel(row.data))) if isinstance(row, Row) else row

    revisions: dict[str, list[Row]] = {}
    for row in rows():
        if isinstance(row, Row) and _REVISION in (name := str(row.data.get("name"))):
            revisions.setdefault(name.partition(_REVISION)[0], []).append(row)
    # A revision is yielded with its memory; the malformed rows of this pass alone are reported.
    memories = (row for row in rows() if not isinstance(row, Row) or _REVISION not in str(row.data.get("name")))
    yield from converted(memories, lambda row: _memory_with_revisions(row, revisions, options))
    if left := sum(map(len, revisions.values())):
        yield Skipped("they are revisions of memories that no file holds", left)


def _camel(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a row as the REST API names them; Google's client writes ``create_time``."""
    for key, value in data.items():
        yield re.sub("_([a-z])", lambda found: found[1].upper(), key), value


def _memory_with_revisions(row: Row, revisions: dict[str, list[Row]], options: ImportOptions) -> Iterator[Found]:
    name = row.required("name")
    own = revisions.pop(name, [])
    subject, scope = _place(row, options)
    shared: dict[str, Any] = {"subject": subject, "scope": scope, "topics": _topics(row), "metadata": _metadata(row)}
    if row.text("memoryType") == "STRUCTURED_PROFILE":
        for keyword, value in row.inner("structuredContent").inner("data").data.items():
            concept = Concept.single(keyword, "", str if isinstance(value, str) else object)
            yield from _BANKED.found(row, options, concept=concept, values=(value,), key=f"{name}/{keyword}", **shared)
        return
    earlier, faults = _earlier(own, row.text("fact"))
    yield from faults
    # The newest revision holds the memory as it is now, and says since when.
    for number, one in enumerate([*earlier, row]):
        about = row if one is row else Row(row.where, {**row.data, "expireTime": None})
        yield from _BANKED.found(
            one, options, about=about, key=f"{name}@{number}", record=name, revises=number > 0, **shared
        )
    if not own and (created := row.time("createTime")) is not None and created < (row.time("updateTime") or created):
        yield Lost("earlier revisions (put the answer of revisions.list into revisions.json beside it)")


def _earlier(revisions: Sequence[Row], text: str | None) -> tuple[list[Row], list[Problem]]:
    """Return the earlier revisions of a memory, oldest first, without the present one, and what cannot be read."""
    found, faults = list[tuple[dt.datetime, str, Row]](), list[Problem]()
    for row in revisions:
        try:
            then, when = row.text("fact"), row.time("createTime")
        except InvalidDataError as error:
            faults.append(Problem(row.where, error))
        else:
            found += [] if then is None or when is None else [(when, then, row)]
    found.sort(key=lambda revision: revision[0])
    if found and found[-1][1] == text:
        found.pop()
    return [row for _, _, row in found], faults


def _place(row: Row, options: ImportOptions) -> tuple[MemorySubject | None, MemoryScope]:
    """Return the subject and the scope that the keys of a memory's scope name."""
    subject, path = None, list[str]()
    given = row.inner("scope")
    for key in sorted(given.data):
        name = given.required(key)
        if key in _USERS:
            subject = individual(name)
        elif key in _AGENTS:
            path[:0] = ["agent", name]
        else:
            path += [key, name]
    return subject, scope_at(path, options.scope)


def _topics(row: Row) -> tuple[str, ...]:
    labels = list[str]()
    for topic in row.items("topics"):
        match topic:
            case str():
                labels.append(topic)
            case (
                {"customMemoryTopicLabel": str() as label}
                | {"managedMemoryTopic": str() as label}
                | {"custom_memory_topic_label": str() as label}
                | {"managed_memory_topic": str() as label}
            ):
                labels.append(label.lower().replace("_", " ") if label.isupper() else label)
            case _:
                raise row.fault("a topic has no label", "topics")
    return tuple(labels)


def _metadata(row: Row) -> dict[str, Any]:
    """Return the metadata without the types that the API writes around the values."""
    return {
        key: next(iter(value.values()), None) if isinstance(value, Mapping) and len(value) == 1 else value
        for key, value in row.inner("metadata").data.items()
    }


# -- LangGraph --------------------------------------------------------------------------------------------------------

_LANGGRAPH_COLUMNS: Final = ("prefix", "key", "value", "created_at", "updated_at")
_TEXTS: Final = ("content", "text", "memory", "fact", "data")
"""Fields of a value that hold its words, the first one first."""

_ITEM: Final = Fields.of("langgraph")

_COPY: Final = re.compile(r"COPY (?:\w+\.)?store \(([\w, ]+)\) FROM stdin;\s*")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}


def read_langgraph(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the items: those with words as statements, others as values under their keys.

    The source is the store's table in SQLite, a dump of it from PostgreSQL, or the items of ``search()`` as JSON.

    Raises:
        FileFormatError: It is something else.
        InvalidDataError: The template of the namespace is not legal.
    """
    namespaces = _Namespaces.of(options.namespace)
    path = source.needed("store.db", "items.json", "items.jsonl", "store.sql")
    rows: Iterator[Row | Problem | Skipped]
    if source.is_database(path):
        rows = source.table("store", _LANGGRAPH_COLUMNS, order="prefix, key", path=path)
    elif path.suffix == ".sql":
        rows = _dumped(source)
    else:
        rows = source.rows(path, "items")
    yield from converted(rows, lambda row: _item(row, namespaces, options))


def _dumped(source: Source) -> Iterator[Row]:
    """Yield the rows of the table in a dump of pg_dump."""
    columns: list[str] | None = None
    with source.text() as text:
        for where, line in source.lines(text):
            if columns is None:
                if begin := _COPY.fullmatch(line):
                    columns = begin[1].split(", ")
            elif line.rstrip("\n") == "\\.":
                columns = None
            else:
                fields = [_unescaped(field) for field in line.rstrip("\n").split("\t")]
                if len(fields) != len(columns):
                    fields = []
                yield Row(where, dict(zip(columns, fields, strict=False)))


def _unescaped(field: str) -> str | None:
    if field == "\\N":
        return None
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), field)


@attrs.frozen
class _Namespaces:
    """The meaning of the segments of a namespace.

    SQLite and PostgreSQL join the segments with dots, so that a name with a dot looks like two names, unless a template
    with a single name in it says otherwise.

    Attributes:
        meanings: The segments of the template, names and {placeholders}; None without a template.
    """

    meanings: tuple[str, ...] | None

    @classmethod
    def of(cls, template: str | None) -> _Namespaces:
        if template is None:
            return cls(None)
        meanings = tuple(segment.strip() for segment in template.split(","))
        if not all(re.fullmatch(r"\{\w+\}|[^{].*", meaning) for meaning in meanings):
            raise InvalidDataError(
                "a template of a namespace is a list of names and {placeholders}, such as memories,{user}"
            )
        return cls(meanings)

    def split(self, row: Row) -> Sequence[str]:
        """Return the segments of a row's namespace.

        Raises:
            FileFormatError: They do not fit the template.
        """
        if isinstance(row.data.get("namespace"), list):
            joint, joined = "\0", "\0".join(row.texts("namespace"))
        elif row.data.get("namespace") is not None:
            joint, joined = "\0", row.required("namespace")
        else:
            joint, joined = ".", row.required("prefix")
        if self.meanings is None:
            return joined.split(joint)
        named = [meaning.startswith("{") for meaning in self.meanings]
        name = "(.+)" if joint == "." and sum(named) == 1 else f"([^{joint}]+)"
        patterns = [name if is_name else f"({re.escape(it)})" for it, is_name in zip(self.meanings, named, strict=True)]
        if (fitting := re.fullmatch(re.escape(joint).join(patterns), joined)) is None:
            raise row.fault("the namespace does not fit the template")
        return fitting.groups()

    def place(self, found: Sequence[str], options: ImportOptions) -> tuple[MemorySubject, MemoryScope]:
        """Return the subject and the scope that a namespace stands for."""
        if self.meanings is None:
            return options.subject, scope_at(found, options.scope)
        subject, path = options.subject, list[str]()
        for meaning, name in zip(self.meanings, found, strict=True):
            if meaning == "{user}":
                subject = individual(name)
            elif meaning.startswith("{"):
                path += [meaning.strip("{}"), name]
        return subject, scope_at(path, options.scope)


def _item(row: Row, namespaces: _Namespaces, options: ImportOptions) -> Iterator[Found]:
    key, value = row.required("key"), _value(row)
    segments = namespaces.split(row)
    subject, scope = namespaces.place(segments, options)
    text, others = _words(value)
    yield from _ITEM.found(
        row,
        options,
        concept=Concept.single(key, "", object) if text is None else STATEMENT,
        values=(value if text is None else text,),
        key="/".join((*segments, key)),
        subject=subject,
        scope=scope,
        metadata={"key": key, **others} if text else {},
    )


def _value(row: Row) -> Any:
    value = row.data.get("value")
    if isinstance(value, str | bytes) and "namespace" not in row.data:  # a column of JSON
        value = parsed(value, f"{row.where}.value")
    if value is None:
        raise row.fault("the item has no value")
    return value


def _words(value: Any) -> tuple[str | None, Mapping[str, Any]]:
    """Return the words of a value, and its other fields."""
    if isinstance(value, str):
        return (value if value.strip() else None), {}
    if not isinstance(value, Mapping):
        return None, {}
    for key in _TEXTS:
        match value.get(key):
            case (str() as text) | {"content": str() as text} if text.strip():  # LangMem wraps what it extracts
                return text, {name: item for name, item in value.items() if name != key}
            case _:
                continue
    return None, {}


# -- Notes ------------------------------------------------------------------------------------------------------------

_NOTE: Final = Fields.of("memory-folder")
_LONGEST_LABEL: Final = 500


def read_memory_folder(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield each list item and paragraph as a statement of the assistant: headings are categories, folders are scopes.

    Each text of a JSON file is a statement, and so is each object of several texts in a list ("note: …; date: …").
    The notes are those of folders such as ``/memories`` of Anthropic's memory tool or of Deep Agents.

    Raises:
        FileFormatError: There are too many files, or too deep.
    """
    for path in source.walk():
        if isinstance(path, Problem):
            yield path
        else:
            yield from guarded(source.place(path), _statements, path, source, options)


def _statements(path: Path, source: Source, options: ImportOptions) -> Iterator[Found]:
    place = source.place(path)
    if is_document(path):
        lines: Iterator[tuple[str, tuple[str, ...]]] = (
            (words, headings[-1:]) for words, _, headings in blocks(source.whole(path), code=False)
        )
    elif path.suffix.lower() == ".json":
        lines = _texts(parsed(source.whole(path), place))
    else:
        yield Skipped("they are neither notes (.md, .txt) nor .json")
        return
    for number, (text, headings) in enumerate(lines, 1):
        yield from _NOTE.found(
            Row(f"{place} statement {number}", {}),
            options,
            values=(text,),
            scope=scope_at(Path(place).parts[:-1], options.scope),
            undated=source.changed_at(path),
            categories=[heading[:_LONGEST_LABEL] for heading in headings],
            metadata={"file": place},
        )


def _texts(value: Any, keys: tuple[str, ...] = (), depth: int = 32) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the texts of a value of JSON, with the outermost keys that they lie under."""
    if depth == 0:
        raise FileFormatError("the JSON is nested too deeply")
    match value:
        case str() as text if text.strip():
            yield text, keys
        case list() as items:
            for item in items:
                fields = item.items() if isinstance(item, Mapping) else ()
                cells = [(name, cell) for name, cell in fields if cell is not None]
                row = len(cells) > 1 and not any(isinstance(cell, list | Mapping) for _, cell in cells)
                said = "; ".join(f"{name}: {cell}" for name, cell in cells) if row else item
                yield from _texts(said, keys, depth - 1)
        case Mapping() as items:
            for name, item in items.items():
                yield from _texts(item, keys or (name,), depth - 1)
        case _:
            pass
