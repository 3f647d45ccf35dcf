"""The commands on the store as a whole: `tree`, `info`, `providers`, `export`, `reembed`, `calibrate` and keys."""

from __future__ import annotations

import functools
import io
import json
import sys
from collections import Counter
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, TextIO, cast

import attrs
import typer
from anyio import to_thread
from typing_extensions import override

from factmem.browse.texts import counted, escaped_json, shown
from factmem.cli.options import ExactOption, key_in
from factmem.cli.progress import progress
from factmem.cli.session import Session
from factmem.errors import CapabilityError, InvalidDataError, StoreUnavailableError
from factmem.json_form import attributes
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

    from factmem.crypto.keys import KeySource
    from factmem.memory.facade import Memory
    from factmem.memory.scope_tree import ScopeTree
    from factmem.scopes import MemoryScope

__all__ = ["calibrate", "export", "info", "new_key", "providers", "reembed", "rotate_key", "tree"]


async def tree(
    session: Session,
    scope: Annotated[str | None, typer.Argument(metavar="[SCOPE]")] = None,
    depth: Annotated[int | None, typer.Option("--depth", "-d", min=0, metavar="LEVELS")] = None,
) -> None:
    """Show the scopes as a tree, with their numbers of records.

    Options:
        scope: Scope (default: the whole store).
        depth: Levels to show (default: all).
    """
    async with session.memory(scope=scope) as memory:
        root = await memory.admin.tree(scope, depth)
        if not root.records:
            await session.note_if_empty(memory, scope=scope)

    def render(out: Console) -> None:
        from rich.tree import Tree

        top = shown(scope) if scope else session.organization or "everything"
        shown_tree = Tree(f"{top}  {root.records}")
        _grow(shown_tree, root)
        out.print(shown_tree)

    session.show(attributes(root), render)


def _grow(branch: Tree, node: ScopeTree) -> None:
    for child in node.children:
        _grow(branch.add(f"{shown(child.name)}  {child.records}"), child)


async def info(
    session: Session,
    scope: Annotated[str | None, typer.Argument(metavar="[SCOPE]")] = None,
    exact: ExactOption = False,
) -> None:
    """Summarize the store: records, dates, concepts, subjects and categories.

    Options:
        scope: Scope (default: the whole store).
    """
    async with session.memory(scope=scope) as memory:
        found = await memory.admin.info(scope, exact=exact)
        waiting = await _waiting(memory, found.scope, exact=exact)
        if not found.records:
            await session.note_if_empty(memory, scope=scope)
    data: dict[str, Json] = {
        "store": session.shown_address,
        "organization": session.organization,
        "viewer": session.reader,
        **attributes(found, "scope", "records", "oldest", "newest"),
        **{name: [*getattr(found, name)] for name in ("keywords", "subjects", "categories")},
        "scopes": [str(child) for child in found.children],
        **waiting,
    }

    def render(out: Console) -> None:
        from rich.text import Text

        for name, value in data.items():
            listed = [f"{key}: {count}" for key, count in value.items()] if isinstance(value, dict) else value
            text = ", ".join(map(str, listed)) if isinstance(listed, list) else str(listed)
            if value not in (None, []) and not (name in waiting and not value):
                out.print(Text.assemble((f"{name:<13}", "dim"), shown(text)))

    session.show(data, render)
    session.note_quarantined(int(bool(waiting["quarantined"])))


async def _waiting(memory: Memory, scope: MemoryScope | None, *, exact: bool) -> dict[str, Json]:
    """Return the numbers of quarantined records, in all and by reason, and for the whole store of dead letters."""
    records = await memory.inbox.quarantine.list(scope=scope, exact=exact)
    reasons = Counter(record.quarantine_reason for record in records)
    letters: dict[str, Json] = {} if scope else {"dead_letters": len(await memory.inbox.dead_letters.list())}
    return {"quarantined": len(records), "reasons": dict(reasons.most_common()), **letters}


async def providers(session: Session) -> None:
    """List the installed providers and their capabilities."""
    from factmem.providers.registry import provider_entry_points

    found = [await to_thread.run_sync(_examined, point) for point in provider_entry_points().values()]

    def render(out: Console) -> None:
        from rich.text import Text

        width = max((len(provider["name"]) for provider in found), default=0) + 2
        for provider in found:
            name, origin = f"{provider['name']:<{width}}", f"{provider['package']}  {provider['factory']}"
            out.print(Text.assemble((name, "bold"), (origin, "dim")))
            description = provider["problem"] or ", ".join(provider["capabilities"]) or "the four verbs"
            out.print(Text(f"{'':<{width}}{description}", style="red" if provider["problem"] else ""))

    session.show(found, render)


def _examined(point: EntryPoint) -> dict[str, Any]:
    """Import a provider, and describe it with its capabilities or the reason why it cannot be imported."""
    from factmem.testing import capabilities_of

    capabilities: list[str] = []
    problem = None
    try:
        provider: Any = point.load()
        if isinstance(provider, type):
            capabilities = capabilities_of(object.__new__(provider))
    except ModuleNotFoundError as error:
        problem = f"{error.name} is not installed: run  pip install 'factmem[{point.name}]'"
    except Exception as error:  # the import of a third party may raise anything
        problem = f"cannot be imported: {type(error).__name__}"
    return {
        "name": point.name,
        "package": point.dist.name if point.dist else None,
        "factory": point.value,
        "capabilities": capabilities,
        "problem": problem,
        "importable": problem is None,
    }


async def export(
    session: Session,
    file: Path,
    force: bool = False,
    system: Annotated[Literal["factmem", "koog"], typer.Option("--to")] = "factmem",
    key_env: Annotated[str | None, typer.Option(metavar="NAME")] = None,
) -> None:
    """Write all records that the viewer may see, with their history, to a file.

    A folder for Koog holds current public records alone; what it has no place for is counted.

    Options:
        file: JSON Lines file to write; - writes to stdout.
        force: Replace an existing file.
        system: Format: our own, or a folder that Koog reads.
        key_env: Environment variable with a key for Koog's files.
    """
    if system == "koog":
        await _export_koog(session, file, force=force, key=key_in(key_env))
    elif key_env is not None:
        raise InvalidDataError("--key-env is for --to koog: an export of factmem is not encrypted")
    else:
        await _export_own(session, file, force=force)


async def _export_own(session: Session, file: Path, *, force: bool) -> None:
    to_stdout = file == Path("-")
    if not force and not to_stdout:
        _check_absent(file)
    target: Path | IO[str] = _stdout() if to_stdout else file
    async with session.memory() as memory:
        try:
            lines = await memory.admin.export(target)
        except StoreUnavailableError as error:
            if isinstance(error.__cause__, BrokenPipeError):
                raise error.__cause__ from None
            raise
        await session.note_if_empty(memory)
    if to_stdout:
        session.note(f"exported {lines} assertion(s)")
    else:
        session.show_line({"exported": lines, "file": str(file)}, f"exported {lines} assertion(s) to {file}")


def _stdout() -> IO[str]:
    """Return stdout; a terminal gets no character that it would obey."""
    return cast("IO[str]", _TerminalJson(sys.stdout)) if sys.stdout.isatty() else sys.stdout


class _TerminalJson(io.TextIOBase):
    """JSON on a terminal; see `escaped_json`."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal

    @override
    def write(self, text: str, /) -> int:
        return self._terminal.write(escaped_json(text))


def _check_absent(file: Path) -> None:
    if file.exists():
        raise InvalidDataError(f"{file} exists already: name another file, or add --force to replace it")


async def _export_koog(session: Session, folder: Path, *, force: bool, key: str | None) -> None:
    from factmem.importers.koog import write_koog

    async with session.memory() as memory:
        records = await memory.list_records()
        await session.note_if_empty(memory)
    write = functools.partial(write_koog, records, folder, key, replace=force)
    try:
        written, lost = await to_thread.run_sync(write)
    except OSError as error:
        raise StoreUnavailableError(f"{folder} cannot be written: {error.strerror}") from None
    text = "\n".join(
        [
            f"exported {counted(written, 'record')} to {folder}",
            *(f"lost: {counted(count, 'record')}: {what}" for what, count in lost.items()),
        ]
    )
    session.show_line({"exported": written, "folder": str(folder), "lost": dict(lost)}, text)


async def reembed(session: Session) -> None:
    """Bind the store to the current embedder, and compute all vectors again."""
    async with session.memory(read_only=False) as memory:
        with progress("embedding", quiet=session.as_json) as advance:
            count = await memory.admin.reembed(advance)
    session.show_line({"reembedded": count}, f"embedded {count} record(s) again")


async def calibrate(
    session: Session,
    questions: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
) -> None:
    """Measure how much words count beside the meaning of the embedder.

    Without questions, it is measured on the statements of the store. Nothing is changed: give the numbers to recall.

    Options:
        questions: JSON Lines of {"question": …, "answer": text of the record} (default: none).
    """
    asked: dict[str, str] | None = None
    if questions is not None:
        try:
            lines = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines() if line.strip()]
            asked = {str(line["question"]): str(line["answer"]) for line in lines}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidDataError(f"{questions} does not hold lines of questions and answers: {error}") from None
    async with session.memory() as memory:
        found = await memory.admin.calibrate(asked)
    session.show_line(attrs.asdict(found), f"--lexical-weight {found.lexical_weight} --unrelated {found.unrelated}")


async def new_key(session: Session) -> None:
    """Print a random key for an encrypted store; keep it in another place than the store."""
    from factmem.crypto import SecretKey

    text = SecretKey.generate().to_text()

    def render(out: Console) -> None:
        out.print(text, soft_wrap=True, highlight=False, markup=False)

    session.show({"key": text}, render)


async def rotate_key(
    session: Session,
    key_env: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    passphrase_env: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    os_keyring: Annotated[str | None, typer.Option(metavar="SERVICE")] = None,
    weak_passphrase: bool = False,
    resume: bool = False,
) -> None:
    """Encrypt a store with another key.

    The address of the store names the present key. An interrupted rotation is continued with --resume.

    Options:
        key_env: Environment variable with the new key.
        passphrase_env: Environment variable with the new passphrase.
        os_keyring: Service of the new key in the system's keyring.
        weak_passphrase: Take the new passphrase even if it is easy to guess.
        resume: Continue an interrupted rotation; the address names the new key.
    """
    from factmem.crypto.key_file import RotatesKeys
    from factmem.providers.registry import open_provider

    key = None if resume else _key_source(key_env, passphrase_env, os_keyring, allow_weak=weak_passphrase)
    provider = open_provider(session.address)
    async with provider:
        if not isinstance(provider, RotatesKeys):
            raise CapabilityError(
                f"{session.shown_address} is not encrypted and has no key: export it with  "
                f"{session.command_line('export', 'facts.jsonl')}  and import that into a store such as "
                "encrypted:facts?key_env=FACTMEM_KEY"
            )
        with progress("encrypting", quiet=session.as_json) as advance:
            await provider.rotate(key, progress=advance)

    def render(out: Console) -> None:
        out.print("the store has its new key; the old one no longer opens it")

    session.show({"rotated": True}, render)


def _key_source(
    key_env: str | None, passphrase_env: str | None, os_keyring: str | None, *, allow_weak: bool
) -> KeySource:
    from factmem.crypto.keys import EnvironmentKey, EnvironmentPassphrase, OsKeyringKey

    match key_env, passphrase_env, os_keyring:
        case str(), None, None:
            return EnvironmentKey(key_env)
        case None, str(), None:
            return EnvironmentPassphrase(passphrase_env, allow_weak=allow_weak)
        case None, None, str():
            return OsKeyringKey(os_keyring)
    raise InvalidDataError("name the new key with one of --key-env, --passphrase-env and --os-keyring, or --resume")
