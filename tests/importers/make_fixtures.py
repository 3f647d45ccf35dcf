"""Make fixtures with the real systems: ``python tests/importers/make_fixtures.py SYSTEM``, where it is installed.

Each system is run offline, without a model: its embedder, where it wants one, is a stub of a few numbers. The version
that wrote a fixture stands in ``fixtures/versions.json``. Other systems cannot be run without servers or accounts:
their fixtures are written by hand, from their sources or documentation: the systems that ``MAKERS`` does not name.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "fixtures"


def _vector(text: str) -> list[float]:
    return [byte / 255 for byte in hashlib.blake2b(text.encode(), digest_size=8).digest()]


class _Embedder:
    """Stands for mem0's embedder."""

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return _vector(text)

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        return [_vector(text) for text in texts]


def mem0(folder: Path) -> None:
    """Memories of two users and an agent: kept word for word, updated twice, deleted."""
    from mem0 import Memory

    memory: Any = Memory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": str(folder / "qdrant"), "on_disk": True, "embedding_model_dims": 8},
            },
            "history_db_path": str(folder / "history.db"),
        }
    )
    memory.embedding_model = _Embedder()
    said: list[tuple[str, str, dict[str, Any]]] = [
        ("I am allergic to peanuts.", "user", {"user_id": "alice", "run_id": "lunch", "metadata": {"tier": "gold"}}),
        ("I live in Lisbon.", "user", {"user_id": "alice"}),
        ("I recommend the fish.", "assistant", {"user_id": "alice", "agent_id": "waiter"}),
        ("Ich heiße Jörg 🎉", "user", {"user_id": "jörg"}),
        ("The secret was told.", "user", {"user_id": "jörg"}),
    ]
    ids = [
        memory.add([{"role": role, "content": text}], infer=False, **about)["results"][0]["id"]
        for text, role, about in said
    ]
    memory.update(ids[1], "I live in Porto.")
    memory.update(ids[1], "I live in Braga.")
    memory.delete(ids[4])
    results = [row for user in ("alice", "jörg") for row in memory.get_all(filters={"user_id": user})["results"]]
    (folder / "get_all.json").write_text(json.dumps({"results": results}, indent=1, ensure_ascii=False), "utf-8")
    memory.vector_store.client.close()
    memory.close()
    shutil.rmtree(folder / "qdrant")
    _dump(folder / "history.db")


def _dump(database: Path) -> None:
    """Write a database as SQL, which a person can read; the tests make the database of it again."""
    with contextlib.closing(sqlite3.connect(database)) as opened:
        database.with_suffix(".sql").write_text("\n".join(opened.iterdump()) + "\n", "utf-8")
    for left in database.parent.glob(f"{database.name}*"):
        left.unlink()


def crewai(folder: Path) -> None:
    """Two public memories and a private one; with its storage as JSON Lines, for where lancedb is not installed."""
    from crewai.memory.storage.lancedb_storage import LanceDBStorage
    from crewai.memory.types import MemoryRecord

    storage = LanceDBStorage(path=str(folder / "lance"), vector_dim=8)
    records = [
        MemoryRecord(content="The barn seats 120.", scope="/product/alpha", categories=["venue"], importance=0.8),
        MemoryRecord(content="Invoices go out on Fridays.", scope="/", metadata={"team": "office"}, source="wiki"),
        MemoryRecord(content="Ich heiße Jörg 🎉", scope="/customer/acme", source="jörg", private=True),
    ]
    for record in records:
        record.embedding = _vector(record.content)
    storage.save(records)
    rows = storage.list_records(limit=1000)
    (folder / "memories.jsonl").write_text("".join(row.model_dump_json() + "\n" for row in rows), "utf-8")
    shutil.rmtree(folder / "lance")


def langgraph(folder: Path) -> None:
    """Memories of two users, one of them overwritten, and one that expires."""
    from langgraph.store.sqlite import SqliteStore

    with SqliteStore.from_conn_string(str(folder / "store.db")) as store:
        store.setup()
        store.put(("memories", "alice"), "food", {"content": "Alice is allergic to peanuts.", "kind": "Memory"})
        store.put(("memories", "alice"), "home", {"content": "Alice lives in Lisbon."})
        store.put(("memories", "alice"), "home", {"content": "Alice lives in Porto."})
        store.put(("memories", "jörg"), "name", {"text": "Ich heiße Jörg 🎉"}, ttl=60)
        store.put(("settings",), "theme", {"dark": True, "size": 12})
        found = [item.dict() for item in store.search((), limit=100)]
    (folder / "items.json").write_text(json.dumps(found, indent=1, ensure_ascii=False), "utf-8")
    _dump(folder / "store.db")


def langchain(folder: Path) -> None:
    """A history file with a call of a tool and an image."""
    from langchain_community.chat_message_histories import FileChatMessageHistory
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    history = FileChatMessageHistory(str(folder / "history.json"))
    call = {"name": "weather", "args": {"city": "Porto"}, "id": "call-1"}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    history.add_messages(
        [
            SystemMessage("Be brief."),
            HumanMessage([{"type": "text", "text": "I moved to Porto in May."}, image], id="m1"),
            AIMessage("", tool_calls=[call]),
            ToolMessage("18 degrees", tool_call_id="call-1"),
            AIMessage("Porto is lovely in autumn."),
        ]
    )


def openai_agents(folder: Path) -> None:
    """Two sessions in one database, with a call of a tool."""
    import anyio
    from agents import SQLiteSession

    async def fill() -> None:
        first = SQLiteSession("lunch", folder / "sessions.db")
        await first.add_items(
            [
                {"role": "user", "content": "I am allergic to peanuts."},
                {"type": "function_call", "call_id": "1", "name": "menu", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "1", "output": "fish, rice"},
                {
                    "type": "message",
                    "role": "assistant",
                    "id": "msg_1",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "I recommend the fish.", "annotations": []}],
                },
            ]
        )
        second = SQLiteSession("dinner", folder / "sessions.db")
        image: Any = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}
        await second.add_items(
            [{"role": "user", "content": [{"type": "input_text", "text": "Ich heiße Jörg 🎉"}, image]}]
        )
        first.close()
        second.close()

    anyio.run(fill)
    _dump(folder / "sessions.db")


def pydantic_ai(folder: Path) -> None:
    """The messages of two runs of an agent with a tool, over the model for tests that pydantic-ai has."""
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    agent = Agent(TestModel(custom_output_text="I recommend the fish."), system_prompt="Be brief.")

    @agent.tool_plain
    def menu() -> str:
        """Return the menu."""
        return "fish, rice"

    first = agent.run_sync("I am allergic to peanuts.")
    second = agent.run_sync("Ich heiße Jörg 🎉", message_history=first.all_messages())
    (folder / "messages.json").write_bytes(second.all_messages_json())


MAKERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "mem0": ("mem0ai", mem0),
    "crewai": ("crewai", crewai),
    "langgraph": ("langgraph-checkpoint-sqlite", langgraph),
    "langchain": ("langchain-community", langchain),
    "openai_agents": ("openai-agents", openai_agents),
    "pydantic_ai": ("pydantic-ai-slim", pydantic_ai),
}


def main() -> None:
    """Make the fixture of each system named."""
    versions = FOLDER / "versions.json"
    for name in sys.argv[1:] or MAKERS:
        package, make = MAKERS[name]
        with tempfile.TemporaryDirectory() as made:
            make(Path(made))
            shutil.rmtree(FOLDER / name, ignore_errors=True)
            shutil.copytree(made, FOLDER / name)
        known: dict[str, str] = json.loads(versions.read_text("utf-8")) if versions.exists() else {}
        known[name] = f"{package} {version(package)}"
        versions.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
        print(name, known[name], *sorted(str(path.relative_to(FOLDER)) for path in (FOLDER / name).rglob("*")))


if __name__ == "__main__":
    os.environ.setdefault("OPENAI_API_KEY", "none")
    os.environ.setdefault("MEM0_TELEMETRY", "False")
    os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
    main()
