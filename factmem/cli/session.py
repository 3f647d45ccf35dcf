"""One run of a command: its store, its output and its errors."""

from __future__ import annotations

import contextlib
import difflib
import getpass
import json
import logging
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import attrs
import typer
from anyio import to_thread

from factmem.browse.texts import escaped_json
from factmem.cli.options import checked_address
from factmem.errors import CapabilityError, FactMemError, InvalidDataError
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.toml_tables import table
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.abc import MemoryObserver
    from factmem.abc.model import LanguageModel
    from factmem.abc.provider import AgentMemoryProvider
    from factmem.changes import Change
    from factmem.memory.background import MemoryEvent
    from factmem.memory.facade import Memory
    from factmem.memory.filters import RecordPage
    from factmem.records import FactRecord

FAILED: Final = 1
"""Exit code after an error, which is explained on stderr."""

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C."""

BROKEN_PIPE: Final = 141
"""Exit code if the reader of stdout went away."""

STDIN: Final = Path("-")
"""File name that stands for stdin, or for stdout."""


_USER: Final = MemorySubject("user")


def dumped(data: Json) -> str:
    """Return data as JSON, in ASCII unless stdout is UTF-8; for a terminal, without characters that it obeys."""
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    text = json.dumps(data, ensure_ascii=encoding != "utf8", indent=2)
    return escaped_json(text) if sys.stdout.isatty() else text


@attrs.frozen(kw_only=True)
class Session:
    """One run of a command, and the options that work before and after the name of every command.

    Attributes:
        store: Store to use: a path or PROVIDER:LOCATION (default: a file in your data folder).
        organization: Tenant that the facts belong to.
        viewer: User who reads and writes, and who owns private facts.
        user: User whose memory it is: the viewer, and the subject and owner of new facts.
        embedder: Embedder: wordllama (the default), minilm, multilingual, fastembed:MODEL or VENDOR:MODEL, as
            voyage:voyage-3.
        reranker: Reranker of results: fastembed:MODEL, VENDOR:MODEL, http://HOST:PORT#MODEL, or model (default: none).
        model: Language model for ingestion: openai/MODEL, PROVIDER/MODEL or http://HOST:PORT/v1#MODEL (default:
            none).
        as_json: Print JSON to stdout and nothing else.
    """

    store: Annotated[str | None, typer.Option(metavar="ADDRESS", callback=checked_address)] = None
    organization: Annotated[str | None, typer.Option(metavar="NAME")] = None
    viewer: Annotated[str | None, typer.Option(metavar="NAME")] = None
    user: Annotated[str | None, typer.Option(metavar="NAME")] = None
    embedder: Annotated[str | None, typer.Option(metavar="NAME")] = None
    reranker: Annotated[str | None, typer.Option(metavar="NAME")] = None
    model: Annotated[str | None, typer.Option(metavar="ADDRESS")] = None
    as_json: Annotated[bool, typer.Option("--json")] = False

    @property
    def address(self) -> str:
        """Address of the store: the given one, else the user's own."""
        from factmem.providers.registry import default_store

        return self.store or default_store()

    def provider(self) -> AgentMemoryProvider:
        """Return the store; ``async with`` opens and closes it."""
        from factmem.providers.registry import open_provider

        return open_provider(self.address)

    @property
    def shown_address(self) -> str:
        """Address of the store without a password, to show."""
        from factmem.providers.registry import without_secrets

        return without_secrets(self.address)

    @property
    def reader(self) -> str | None:
        """Name of the viewer: the user, if one is named."""
        return self.user or self.viewer

    def command_line(self, *words: str) -> str:
        """Return a command line to paste, with the global options of this run; see `options`."""
        return shlex.join(["factmem", *self.options(), *words])

    def options(self) -> list[str]:
        """Return the global options of this run as words; those that the environment sets already are left out."""
        given = attrs.asdict(self) | {"store": self.store and self.shown_address}
        del given["as_json"]
        return [
            part
            for name, value in given.items()
            if value and value != os.environ.get(f"FACTMEM_{name.upper()}")
            for part in (f"--{name}", value)
        ]

    @contextlib.asynccontextmanager
    async def memory(
        self,
        *,
        provider: AgentMemoryProvider | None = None,
        subject: MemorySubject | None = None,
        scope: str | None = None,
        read_only: bool = True,
        asking: bool = False,
        keep_words: bool = True,
        on_event: Callable[[MemoryEvent], None] | None = None,
        observers: Sequence[MemoryObserver] = (),
        budget: int | None = None,
    ) -> AsyncIterator[Memory]:
        """Open the store.

        Args:
            provider: The store, if it is open already.
            subject: Subject to search as well if the provider has the four verbs only.
            scope: Scope to search as well if the provider has the four verbs only.
            read_only: Refuse every write.
            asking: Use the language model, if one is named; also for jobs that an earlier process left.
            keep_words: Keep the user's words beside the facts found in them.
            on_event: Called with each event of the background worker.
            observers: Called with every operation.
            budget: Maximum number of tokens of the language model, about.
        """
        from factmem.llm import Budget
        from factmem.memory.background import Background
        from factmem.memory.context import Policies
        from factmem.memory.facade import Memory
        from factmem.recall.embedders import embedder_named
        from factmem.reranking.rerankers import as_reranker

        users = [_USER, _USER.individual(self.user)] if self.user else []

        within = [MemoryScope.CROSS_PRODUCT]
        if scope and (root := MemoryScope.subtree(scope)) is not None and not root.is_branch:
            within.append(root)
        model = self._language_model() if asking else None
        with self._warning_once():
            async with Memory(
                provider or self.address,
                organization=self.organization,
                viewer=self.viewer,
                subjects=[MemorySubject.EVERYTHING, *users, *([subject] if subject else [])],
                scopes=within,
                embedder=embedder_named(self.embedder) if self.embedder else None,
                reranker=as_reranker(self.reranker, self._language_model()) if self.reranker else None,
                model=model,
                policies=Policies(keep_words=keep_words),
                on_event=on_event,
                observers=observers,
                background=Background(budget=Budget(tokens=budget)),
                read_only=read_only,
                actor=_actor(),
            ) as memory:
                yield memory.for_user(self.user) if self.user else memory

    def _language_model(self) -> LanguageModel | None:
        if self.model is None:
            return None
        from factmem.llm.instructor_model import language_model

        try:
            return language_model(self.model)
        except InvalidDataError as error:
            raise InvalidDataError(f"--model or FACTMEM_MODEL: {error}") from None

    @contextlib.contextmanager
    def _warning_once(self) -> Iterator[None]:
        """Print each warning once on stderr, however often it is logged."""
        log, handler = logging.getLogger("factmem"), _Once(self.note)
        log.addHandler(handler)
        propagates, log.propagate = log.propagate, False
        try:
            yield
        finally:
            log.propagate = propagates
            log.removeHandler(handler)

    def check_model(self, what: str) -> None:
        """Refuse an operation that needs a language model, before anything is read.

        Args:
            what: Name of the operation, such as "resuming".

        Raises:
            CapabilityError: No model is named.
        """
        if self.model is None:
            raise CapabilityError(
                f"{what} needs a language model: name one with --model or FACTMEM_MODEL, such as openai/MODEL or "
                "http://127.0.0.1:8080/v1#MODEL"
            )

    async def subject_in(self, memory: Memory, given: MemorySubject | None) -> MemorySubject:
        """Return a subject with the description and priority that the store has; None stands for the user, if any."""
        if given is None and self.user is not None:
            given = _USER.individual(self.user)
        if given is None or given.key == MemorySubject.EVERYTHING.key:
            return MemorySubject.EVERYTHING
        known = await memory.list_records(subject=given, limit=1)
        return known[0].subject if known else given

    def private(self, asked: bool) -> bool | None:
        """Return whether records are to be private; None if the option does not say so, and a user's memory may.

        Raises:
            typer.BadParameter: There is no viewer to own them.
        """
        if asked and self.reader is None:
            raise typer.BadParameter("--private needs an owner: name one with --viewer NAME or --user NAME")
        return True if asked else None

    def show(self, data: Json, render: Callable[[Console], None]) -> None:
        """Print a result to stdout, as JSON or rendered for people."""
        if self.as_json:
            print(dumped(data))
            return
        from factmem.cli.output import console

        render(console())

    def show_line(self, data: Json, *lines: str) -> None:
        """Print a result that is a line or two for people."""
        self.show(data, lambda out: out.print("\n".join(lines), soft_wrap=True))

    def show_changes(self, changes: Sequence[Change], label: str) -> None:
        """Print changes, each with a label for people."""
        from factmem.cli.output import print_changes
        from factmem.json_form import attributes

        self.show([attributes(change) for change in changes], lambda out: print_changes(out, changes, label))

    def show_page(
        self, found: RecordPage, label: Callable[[FactRecord[Any]], str] = lambda record: "•", *, empty: str
    ) -> None:
        """Print a page of records, each after a label and how to see the next one, or a text if it is empty."""
        from factmem.cli.output import print_more, print_records
        from factmem.json_form import record_json

        def render(out: Console) -> None:
            print_records(out, found, label, empty=empty)
            print_more(out, found.next_page)

        self.show({"records": [record_json(record) for record in found], "next_page": found.next_page}, render)

    def note(self, text: str) -> None:
        """Print a note for people to stderr, unless the output is JSON."""
        if not self.as_json:
            print(text, file=sys.stderr)

    def note_quarantined(self, number: int, owners: Sequence[str] = ()) -> None:
        """Print how to review what waits in quarantine, if anything does: also what is private to some owners."""
        if number:
            sessions = [attrs.evolve(self, user=owner) for owner in owners] or [self]
            lists = "  or  ".join(session.command_line("quarantine", "list") for session in sessions)
            self.note(f"Review what waits in quarantine with  {lists}")

    async def note_if_empty(self, memory: Memory, *, scope: str | None = None) -> None:
        """Print a note if the store holds no facts at all, or none in the scope that was named."""
        if self.as_json:
            return
        if (known := await memory.admin.info()).records:
            if scope is not None and (unknown := self._unknown(scope, known.scopes)) is not None:
                self.note(unknown)
            return
        if self.address.partition(":")[0] == "none":
            self.note("none: keeps nothing: name another store with --store.")
        elif (missing := await self.missing_store()) is not None:
            self.note(missing)
        elif quarantined := len(await memory.inbox.quarantine.list()):
            hint = self.command_line("quarantine", "list")
            self.note(f"{self.shown_address} holds no facts yet, and {quarantined} in quarantine: see  {hint}")
        elif await _has_past(memory):
            hint = self.command_line("audit")
            self.note(f"{self.shown_address} holds no facts any more{self._seen_by()}; its past is listed by  {hint}")
        else:
            hint = self.command_line("ingest", "FILE")
            users = [] if self.reader else ["private to a user with --user NAME"]
            tenants = [] if self.organization else ["of an organization with --organization NAME"]
            others = f"see what is {' or '.join(users + tenants)}, " if users or tenants else ""
            self.note(
                f"{self.shown_address} holds nothing{self._seen_by()}: {others}name another store with --store, "
                f"or ingest a conversation with  {hint}"
            )

    async def missing_store(self) -> str | None:
        """Return a sentence if nothing exists at the address of a store in files."""
        from factmem.abc.capabilities import KeepsFiles

        async with self.provider() as provider:
            if not isinstance(provider, KeepsFiles) or not await to_thread.run_sync(provider.location.is_vacant):
                return None
        hint = self.command_line("ingest", "FILE")
        return (
            f"there is no store at {self.shown_address}: check the path, name another store with --store, or make one "
            f"by ingesting a conversation with  {hint}"
        )

    async def unknown_scopes(self, memory: Memory, paths: Iterable[str]) -> list[str]:
        """Return a sentence for each scope that holds no record, if the store holds any."""
        known = (await memory.admin.info()).scopes
        return [unknown for path in paths if known and (unknown := self._unknown(path, known)) is not None]

    def _unknown(self, path: str, known: Iterable[MemoryScope]) -> str | None:
        """Return a sentence on a scope that no record is in, with a similar one that has some; None for another."""
        wanted = MemoryScope.subtree(path)
        if wanted is None or any(wanted.within(scope.tenant).contains(scope) for scope in known):
            return None
        above = {str(scope.within(None)) for found in known for scope in found.lineage}
        similar = difflib.get_close_matches(path, sorted(above), n=1)
        hint = f"did you mean {similar[0]}?" if similar else f"the scopes are listed by  {self.command_line('tree')}"
        return f"no record is in {path}: {hint}"

    def _seen_by(self) -> str:
        tenant = f" of the organization {self.organization}" if self.organization else ""
        return tenant + (f" that {self.reader} may see" if self.reader else " that is public")


async def _has_past(memory: Memory) -> bool:
    """Return whether the audit trail shows anything to the viewer."""
    with contextlib.suppress(CapabilityError):
        return bool((await memory.admin.audit(limit=1)).entries)
    return False


def _actor() -> str:
    """Return the name of the actor for the audit trail."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = ""
    return f"cli:{name}" if name.isprintable() and name.strip() else "cli"


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process while a line of stdin is awaited: any handler could miss one just before the read."""
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


class _Once(logging.Handler):
    """Prints each warning once."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._show = show
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print the warning, unless it was printed before."""
        text = in_words(record.getMessage())
        if text not in self._shown:
            self._shown.add(text)
            self._show(f"factmem: {text}")


def report(error: FactMemError, *, as_json: bool, file: Path | None = None) -> None:
    """Print an error to stderr.

    Args:
        error: The error.
        as_json: Whether to print it as a JSON object.
        file: The file that it is about.
    """
    text = in_words(str(error))
    name = "stdin" if file == STDIN else str(file or "")
    message = text if text.startswith(name) else f"{name}: {text}"
    if as_json:
        print(json.dumps({"error": {"type": type(error).__name__, "message": message}}), file=sys.stderr)
    else:
        print(f"factmem: {message}", file=sys.stderr)


def in_words(text: str) -> str:
    """Return an error's message in the terms of the command line."""
    for term, replacement in table("cli/terms")["terms"].items():
        text = text.replace(term, replacement)
    return text


def sentence(error: FactMemError) -> str:
    """Return an error's message as a sentence that another one may follow."""
    text = in_words(str(error))
    return text if text.endswith((".", "?", "!")) else f"{text}."
