"""The command `demo`: two conversations are ingested, and a new process answers questions about them."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import anyio
import attrs
import typer
from anyio import to_thread
from rich.text import Text

from factmem.abc.detector import Conversation
from factmem.cli.ingest import About, Ingestion, keep_conversation
from factmem.cli.output import print_block
from factmem.cli.progress import progress
from factmem.cli.session import FAILED, Session
from factmem.details import Evidence, FactDetails
from factmem.errors import InvalidDataError, StoreUnavailableError
from factmem.facts import Concept
from factmem.json_form import attributes
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.toml_tables import table
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory.facade import Memory

_MAYA: Final = MemorySubject("user", "The person who talks to the agent", priority_level=1).individual("Maya")
_CAFE: Final = MemoryScope.product("repair-café")
_TEXTS: Final = table("cli/demo")
_QUESTIONS: Final = [(asked["question"], asked["expected"]) for asked in _TEXTS["questions"]]
"""Questions, and a text in the value of the right fact."""

_SECRET: Final = b"Rust-4nd-Resin!77"
_FILLED: Final = 0.2
"""Share of the time that is over when everything is in the store."""


@attrs.frozen
class _Answer:
    """The answer of a new process to a question.

    Attributes:
        question: The question.
        text: The first result, as it was printed.
        right: Whether it is the right fact.
    """

    question: str
    text: str
    right: bool


async def demo(session: Session, keep: Annotated[Path | None, typer.Option(metavar="PATH")] = None) -> None:
    """Ingest two conversations, and let a new process answer questions about them.

    Options:
        keep: New file to keep the store in.
    """
    with _store(keep) as file:
        inside = attrs.evolve(session, store=f"sqlite-vec:{quote(str(file))}")
        with progress("the demo", quiet=session.as_json) as advance:
            taken = await _fill(inside)
            advance(_FILLED)
            answers = await _ask(inside, lambda share: advance(_FILLED + (1 - _FILLED) * share))
        leaks = await to_thread.run_sync(_leaks, file, answers)
    data: dict[str, Json] = {
        "taken_in": attributes(taken),
        "answers": [attributes(answer) for answer in answers],
        "leaks": list(leaks),
        "store": str(keep) if keep else None,
    }
    session.show(data, lambda out: _print_demo(out, taken, answers, leaks, keep))
    if leaks or not all(answer.right for answer in answers):
        raise typer.Exit(FAILED)


@contextlib.contextmanager
def _store(keep: Path | None) -> Iterator[Path]:
    """Yield the path of a new store, which is removed at the end unless ``keep`` names it."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="factmem-demo-") as folder:
            yield Path(folder) / "facts.db"
    elif keep.exists():
        raise InvalidDataError(f"{keep} exists already: name a new file to keep the demo's store in")
    else:
        yield keep


async def _fill(session: Session) -> Ingestion:
    """Ingest the conversations that come with factmem, and save a few typed facts."""
    from factmem.conversations import read_conversations

    with resources.as_file(resources.files("factmem.cli") / "demo.json") as file:
        conversations = await to_thread.run_sync(lambda: list(read_conversations(file)))
    async with session.provider() as provider, session.memory(provider=provider, read_only=False) as memory:
        about = About(subject=_MAYA, scope=_CAFE, source=None, private=None)
        taken = Ingestion()
        for conversation in conversations:
            taken += await keep_conversation(session, memory, provider, conversation, about)
        await _save_typed(memory, conversations)
    return taken


async def _save_typed(memory: Memory, conversations: Sequence[Conversation]) -> None:
    said = {message.id: (message, whole.id) for whole in conversations for message in whole.messages}
    for keyword, typed in _TEXTS["concepts"].items():
        for message_id, value in typed["said"].items():
            message, conversation_id = said[message_id]
            assert message.timestamp is not None
            evidence = Evidence(
                quote=message.content,
                message_id=message_id,
                role=message.role,
                speaker=message.name,
                conversation_id=conversation_id,
            )
            concept = Concept.single(keyword, typed["description"], type(value))
            fact = concept.fact([value], timestamp=message.timestamp)
            await memory.save(fact, subject=_MAYA, scope=_CAFE, details=FactDetails(evidence=(evidence,)))


async def _ask(session: Session, advance: Callable[[float], None]) -> list[_Answer]:
    """Ask each question in a process of its own."""
    answers: dict[str, _Answer] = {}
    limiter = anyio.CapacityLimiter(os.cpu_count() or 1)

    async def ask(question: str, expected: str) -> None:
        async with limiter:
            text = await _recall_elsewhere(session, question)
            answers[question] = _Answer(question, text, right=expected in text.partition("\n")[0])
            advance(len(answers) / len(_QUESTIONS))

    async with anyio.create_task_group() as tasks:
        for question, expected in _QUESTIONS:
            tasks.start_soon(ask, question, expected)
    return [answers[question] for question, _ in _QUESTIONS]


async def _recall_elsewhere(session: Session, question: str) -> str:
    """Return the first result of ``factmem recall`` in a new process, as it is printed."""
    words = [sys.executable, "-m", "factmem", *session.options(), "recall", question, "--limit", "1"]
    done = await anyio.run_process(words, check=False)
    if done.returncode:
        error = done.stderr.decode(errors="replace").strip()
        raise StoreUnavailableError(f"the process that answers failed: {error}")
    return textwrap.dedent(done.stdout.decode(errors="replace").replace(" 1  ", " " * 4, 1)).strip()


def _leaks(file: Path, answers: Sequence[_Answer]) -> list[str]:
    """Return the traces of the secret and of the intruder; there should be none."""
    stored = [path for path in sorted(file.parent.glob(f"{file.name}*")) if _SECRET in path.read_bytes()]
    believed = [answer for answer in answers if _TEXTS["intruder"] in answer.text]
    return [f"the password is in {path.name}" for path in stored] + [
        f"a tool's words were taken for a fact: {answer.question}" for answer in believed
    ]


def _print_demo(
    out: Console, taken: Ingestion, answers: Sequence[_Answer], leaks: Sequence[str], keep: Path | None
) -> None:
    out.print("Two conversations of a fictitious user, three weeks apart, were ingested:", style="bold")
    typed = "; ".join(
        f"{keyword} {' then '.join(map(str, typed['said'].values()))}" for keyword, typed in _TEXTS["concepts"].items()
    )
    out.print(f"  {taken}")
    out.print(f"  typed facts saved beside them: {typed}\n")
    out.print("Then a new process was asked:", style="bold")
    for answer in answers:
        lines = [Text(answer.question, style="italic"), *map(Text, answer.text.splitlines()), Text("")]
        print_block(out, "✓" if answer.right else "✗", lines)
    for leak in leaks:
        out.print(f"✗ {leak}", style="bold red")
    right = sum(answer.right for answer in answers)
    style = "bold green" if right == len(answers) and not leaks else "bold red"
    out.print(f"{right} of {len(answers)} right facts came first. ", style=style, end="")
    if not leaks:
        out.print("The password is in no file of the store, and the web page was not believed.", end="")
    _print_next(out, keep)


def _print_next(out: Console, keep: Path | None) -> None:
    """Print commands to type next: on the store that was kept, else on a store of the reader."""
    start = "factmem" if keep is None else shlex.join(["factmem", "--store", str(keep)])
    lines = _TEXTS["next"]["own" if keep is None else "kept"].items()
    commands = [(f"{start} {words}", what) for words, what in lines]
    width = max(len(command) for command, _ in commands)
    out.print("\n\nWhat to type next:", style="bold")
    for command, what in commands:
        out.print(f"  {command:<{width}}  # {what}", soft_wrap=True)
