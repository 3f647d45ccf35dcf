"""One run of a command: which store it works on, and how it reports."""

from __future__ import annotations

import contextlib
import getpass
import json
import logging
import os
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING

import attrs
import typer

from factmem.errors import CapabilityError
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.abc import AgentMemoryProvider, LanguageModel
    from factmem.memory import Memory, MemoryEvent

__all__ = ["Session", "dumped", "known_subject"]


def dumped(data: Json) -> str:
    """Write JSON, in ASCII where the terminal or pipe cannot carry every script."""
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    return json.dumps(data, ensure_ascii=encoding != "utf8", indent=2)


@attrs.frozen(kw_only=True)
class Session:
    """One run of a command.

    Attributes:
        store: the store's address, if one was given.
        organization: the tenant.
        viewer: who reads and owns private facts.
        embedder: the name of what makes the vectors; the default if None.
        model: the address of the language model that reads what is taken in; nobody does if None.
        as_json: whether stdout takes JSON and nothing else.
    """

    store: str | None = None
    organization: str | None = None
    viewer: str | None = None
    embedder: str | None = None
    model: str | None = None
    as_json: bool = False

    @property
    def address(self) -> str:
        """Where the facts are: the store that was given, else the user's own."""
        from factmem.providers import default_store

        return self.store or default_store()

    def command_line(self, *words: str) -> str:
        """Return a command that people can paste: it means this very store, as this viewer, with this model.

        What the environment says already is left out.
        """
        said = {
            "store": self.store,
            "organization": self.organization,
            "viewer": self.viewer,
            "embedder": self.embedder,
            "model": self.model,
        }
        options = [
            part
            for name, value in said.items()
            if value and value != os.environ.get(f"FACTMEM_{name.upper()}")
            for part in (f"--{name}", value)
        ]
        return shlex.join(["factmem", *options, *words])

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
    ) -> AsyncIterator[Memory]:
        """Open the store.

        Args:
            provider: the store, if it is open already.
            subject: where a provider with the four verbs only is to look as well.
            scope: the scope of that.
            read_only: refuse every write.
            asking: let the language model read, if there is one; also what an earlier process left unread.
            keep_words: keep the user's words beside what the model finds in them.
            on_event: hears of what is read in the background.
        """
        from factmem.memory import Memory
        from factmem.recall import embedder_named

        scopes: list[MemoryScope | str] = [MemoryScope.CROSS_PRODUCT]
        model = self._language_model() if asking else None
        with self._warning_once():
            async with Memory(
                provider or self.address,
                organization=self.organization,
                viewer=self.viewer,
                subjects=[MemorySubject.EVERYTHING, *([subject] if subject else [])],
                scopes=[*scopes, *([scope] if scope else [])],
                embedder=embedder_named(self.embedder) if self.embedder else None,
                model=model,
                keep_words=keep_words,
                on_event=on_event,
                read_only=read_only,
                actor=_actor(),
            ) as memory:
                yield memory

    def _language_model(self) -> LanguageModel | None:
        if self.model is None:
            return None
        from factmem.llm import language_model

        return language_model(self.model)

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
        """Refuse what only a language model can do, before anything is read.

        Args:
            what: what that is, such as "reading what waits".

        Raises:
            CapabilityError: no model was named.
        """
        if self.model is None:
            raise CapabilityError(
                f"{what} needs a language model: name one with --model or FACTMEM_MODEL, such as openai/MODEL or "
                "http://127.0.0.1:8080/v1#MODEL"
            )

    def check_private(self, private: bool) -> None:
        """Refuse what is private and has no owner, before anything is read.

        Raises:
            typer.BadParameter: there is no viewer to own it.
        """
        if private and self.viewer is None:
            raise typer.BadParameter("--private needs an owner: say who with --viewer NAME")

    def show(self, data: Json, render: Callable[[Console], None]) -> None:
        """Write a result to stdout: as JSON if that was asked for, else for people."""
        if self.as_json:
            print(dumped(data))
            return
        from factmem.cli.output import console

        render(console())

    def note(self, text: str) -> None:
        """Tell people something on stderr; nothing if JSON was asked for."""
        if not self.as_json:
            print(text, file=sys.stderr)

    async def note_if_empty(self, memory: Memory) -> None:
        """Tell people which store this is if there is nothing in it, or nothing that counts."""
        if self.as_json or (await memory.info()).records:
            return
        if self.address.partition(":")[0] == "none":
            self.note("none: keeps nothing at all: name another store with --store.")
        elif apart := len(await memory.quarantine.list()):
            hint = self.command_line("quarantine", "list")
            self.note(f"{self.address} holds no facts yet, and {apart} in quarantine: see  {hint}")
        elif await _has_past(memory):
            hint = self.command_line("audit")
            self.note(f"{self.address} holds no facts any more{self._seen_by()}; what there was is told by  {hint}")
        else:
            hint = self.command_line("ingest", "FILE")
            self.note(
                f"{self.address} holds nothing{self._seen_by()}: take in a conversation with  {hint}  "
                "or name another store with --store."
            )

    def _seen_by(self) -> str:
        names = [("of the organization", self.organization), ("that the viewer may see:", self.viewer)]
        return "".join(f" {what} {name}" for what, name in names if name)


async def _has_past(memory: Memory) -> bool:
    """Whether anything happened that the viewer may see."""
    with contextlib.suppress(CapabilityError):
        return bool((await memory.audit(size=1)).entries)
    return False


def _actor() -> str:
    """Name who types, for the audit trail."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = ""
    return f"cli:{name}" if name.isprintable() and name.strip() else "cli"


class _Once(logging.Handler):
    """Tells each warning once."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Tell it, if it is new."""
        text = record.getMessage()
        if text not in self._told:
            self._told.add(text)
            self._tell(f"factmem: {text}")


async def known_subject(memory: Memory, subject: MemorySubject | None) -> MemorySubject:
    """Return a subject as the store knows it, with its description and priority; EVERYTHING for None."""
    if subject is None or subject.key == MemorySubject.EVERYTHING.key:
        return MemorySubject.EVERYTHING
    known = await memory.list_records(subject=subject, limit=1)
    return known[0].subject if known else subject
