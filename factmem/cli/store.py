"""The commands on the store as a whole: its tree, its figures, checks, copies, exports, vectors and keys."""

from __future__ import annotations

import functools
import io
import json
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, Literal

import anyio
import attrs
import typer
from anyio import to_thread

from factmem.browse.texts import counted, escaped_json, shown
from factmem.cli.options import checked_address, key_in
from factmem.cli.progress import progress
from factmem.cli.session import FAILED, STDIN, Session
from factmem.errors import CapabilityError, InvalidDataError, StoreUnavailableError
from factmem.json_form import attributes
from factmem.store_findings import Finding, Severity
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

    from factmem.abc.capabilities import KeepsLog
    from factmem.memory.facade import Memory
    from factmem.memory.moves import MoveReceipt
    from factmem.memory.scope_tree import ScopeTree
    from factmem.providers.backups import Backup
    from factmem.scopes import MemoryScope


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
    session: Session, scope: Annotated[str | None, typer.Argument(metavar="[SCOPE]")] = None, exact: bool = False
) -> None:
    """Summarize the store: records, dates, concepts, subjects and categories, and what waits in quarantine.

    Of more than 1,000 waiting records, the reasons of the newest 1,000 are counted. A missing store is an error.

    Options:
        scope: Scope (default: the whole store).
    """
    if (missing := await session.missing_store()) is not None:
        raise StoreUnavailableError(missing)
    async with session.memory(scope=scope) as memory:
        found = await memory.admin.info(scope, exact=exact)
        waiting = await _waiting(memory, found.scope, exact=exact, all_users=session.reader is None)
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


_REASONS_READ: Final = 1_000
_REASONS_SHOWN: Final = 10


async def _waiting(memory: Memory, scope: MemoryScope | None, *, exact: bool, all_users: bool) -> dict[str, Json]:
    """Return the numbers of quarantined records, in all and by reason, and for the whole store of dead letters.

    Of many records, the reasons of the newest are counted.
    """
    quarantine = memory.inbox.quarantine
    newest = await quarantine.list(scope=scope, exact=exact, limit=_REASONS_READ, descending=True)
    more = newest.next_page is not None
    number = await quarantine.count(scope=scope, exact=exact) if more else len(newest)
    reasons = Counter(record.quarantine_reason for record in newest).most_common()
    counts = dict(reasons[:_REASONS_SHOWN])
    if rest := sum(count for _, count in reasons[_REASONS_SHOWN:]):
        counts["other reasons"] = rest
    found: dict[str, Json] = {"quarantined": number, "reasons": counts, **({"reasons_of": len(newest)} if more else {})}
    if scope is None:
        found["dead_letters"] = len(await memory.inbox.dead_letters.list(all_users=all_users))
    return found


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
        wanted = f"'factmem[{','.join(point.extras)}]'" if point.extras else error.name
        problem = f"{error.name} is not installed: run  pip install {wanted}"
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
    key_env: str | None = None,
    all_users: bool = False,
) -> None:
    """Write all records visible to the viewer, with their history, to a file.

    A folder for Koog holds only current public records; data that Koog cannot store is counted.

    Options:
        file: JSON Lines file to write; - writes to stdout.
        force: Replace an existing file.
        system: Format: our own, or a folder that Koog reads.
        key_env: Environment variable with a key for Koog's files.
        all_users: Also write the private records of all users.
    """
    if system == "koog" and all_users:
        raise InvalidDataError("--all-users is for an export of factmem: Koog keeps no owners")
    if system == "koog":
        await _export_koog(session, file, force=force, key=key_in(key_env))
    elif key_env is not None:
        raise InvalidDataError("--key-env is for --to koog: an export of factmem is not encrypted")
    else:
        await _export_own(session, file, force=force, all_users=all_users)


async def _export_own(session: Session, file: Path, *, force: bool, all_users: bool) -> None:
    to_stdout = file == STDIN
    if not force and not to_stdout and await anyio.Path(file).exists():
        raise InvalidDataError(f"{file} exists already: name another file, or add --force to replace it")
    for_a_terminal = io.StringIO()
    target: Path | IO[str] = file
    if to_stdout:
        target = for_a_terminal if sys.stdout.isatty() else sys.stdout
    async with session.memory() as memory:
        try:
            lines = await memory.admin.export(target, all_users=all_users, replace=force)
        except StoreUnavailableError as error:
            if isinstance(error.__cause__, BrokenPipeError):
                raise error.__cause__ from None
            raise
        await session.note_if_empty(memory)
    if to_stdout:
        print(escaped_json(for_a_terminal.getvalue()), end="")
        session.note(f"exported {counted(lines, 'assertion')}")
    else:
        session.show_line({"exported": lines, "file": str(file)}, f"exported {counted(lines, 'assertion')} to {file}")


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
    session.show_line({"reembedded": count}, f"embedded all records again, {count} of them visible here")


async def calibrate(session: Session, questions: Annotated[Path | None, typer.Option(metavar="FILE")] = None) -> None:
    """Measure the weight of words beside the meaning of the embedder.

    Without questions, the statements of the store are used. Nothing is changed: pass the printed numbers to recall.

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
    session.show_line({"key": text}, text)


async def rotate_key(
    session: Session,
    key_env: str | None = None,
    passphrase_env: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    os_keyring: Annotated[str | None, typer.Option(metavar="SERVICE")] = None,
    weak_passphrase: bool = False,
    resume: bool = False,
) -> None:
    """Encrypt a store with another key.

    The address of the store names the present key. To continue an interrupted rotation, use --resume and an address
    that names the new key.

    Options:
        key_env: Environment variable with the new key.
        passphrase_env: Environment variable with the new passphrase.
        os_keyring: Service of the new key in the system's keyring.
        weak_passphrase: Accept a new passphrase that is easy to guess.
        resume: Continue an interrupted rotation; the address names the new key.
    """
    from factmem.crypto.key_file import RotatesKeys
    from factmem.crypto.keys import key_sources, words_for_key

    keys = key_sources(key_env, passphrase_env, os_keyring, allow_weak=weak_passphrase)
    if resume and keys:
        raise InvalidDataError("--resume takes no new key: the address of the store names the one to continue with")
    if not resume and len(keys) != 1:
        raise InvalidDataError("name the new key with one of --key-env, --passphrase-env and --os-keyring, or --resume")
    key = None if resume else keys[0]
    async with session.provider() as provider:
        if not isinstance(provider, RotatesKeys):
            raise CapabilityError(
                f"{session.shown_address} is not encrypted and has no key: copy the whole of it into a store that is, "
                f"with  factmem move {shlex.quote(session.shown_address)} 'encrypted:facts?key_env=FACTMEM_KEY'"
            )
        with progress("encrypting", quiet=session.as_json) as advance:
            rotated = await provider.rotate(key, progress=advance)
    if key is not None:
        line = f"{words_for_key(key)} opens the store from now on, and no other key does"
    else:
        line = "the rotation is finished" if rotated else "no rotation was interrupted: the store keeps its key"
    session.show_line({"rotated": rotated}, line)


_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}
_ORDER: Final = list(Severity)


async def check(session: Session) -> None:
    """Verify the whole store without changing it, and show the faults and the next steps.

    Formats, checksums and seals, references, vectors, pending erasures and rotations, and the modes of files are
    checked for every tenant; records that wait for the model or in quarantine are counted. The exit code is 1 if there
    is an error or a warning.
    """
    from factmem.abc.capabilities import KeepsLog

    async with session.provider() as provider:
        if not isinstance(provider, KeepsLog):
            raise CapabilityError(f"{session.shown_address} cannot check itself: its provider has no such capability")
        found = await _found(session, provider)
    _show(session, found)


async def upgrade(session: Session, create: bool = False) -> None:
    """Upgrade a store that an older factmem wrote to the newest format, and check it.

    The first write upgrades a store by itself; with a large store, use this command first. Keep a backup:
    an older factmem does not open the new format.

    Options:
        create: Create an empty store where there is none.
    """
    from factmem.abc.capabilities import KeepsLog, UpgradesFormat

    async with session.provider() as provider:
        if not isinstance(provider, UpgradesFormat) or not isinstance(provider, KeepsLog):
            raise CapabilityError(f"{session.shown_address} needs no upgrade: stores of its kind have one format")
        before, newest = await provider.format_versions()
        if not (before or create):
            raise StoreUnavailableError(
                f"there is no store {session.shown_address}: check its address, or create one with --create"
            )
        if before < newest:
            with progress("upgrading", quiet=session.as_json) as advance:
                await provider.upgrade(create=create, progress=advance)
        after, _ = await provider.format_versions()
        found = await _found(session, provider)

    done = f"was upgraded from format {before} to {after}" if before < after else f"has the newest format, {after}"
    done = done if before else f"was created, in format {after}"
    _show(session, found, f"{session.shown_address} {done}", before=before, after=after)


async def _found(session: Session, provider: KeepsLog) -> list[Finding]:
    with progress("checking", quiet=session.as_json) as advance:
        found = await provider.check(progress=advance)
    return sorted(found, key=lambda finding: _ORDER.index(finding.severity))


def _show(session: Session, found: Sequence[Finding], done: str = "", **formats: Json) -> None:
    """Print findings, and exit with an error code unless the store is sound."""
    sound = all(finding.severity is Severity.NOTE for finding in found)
    data: dict[str, Json] = {
        "store": session.shown_address,
        **formats,
        "sound": sound,
        "findings": [attributes(item, "severity", "kind", "part", "problem", "advice") for item in found],
    }

    def render(out: Console) -> None:
        if done:
            out.print(shown(done))
        _print_findings(out, found, session.shown_address)

    session.show(data, render)
    if not sound:
        raise typer.Exit(FAILED)


def _print_findings(out: Console, found: Sequence[Finding], address: str) -> None:
    from rich.text import Text

    for finding in found:
        label = (f"{finding.severity.value:<9}", _STYLES[finding.severity])
        problem = shown(f"{finding.part}: {finding.problem}")
        out.print(Text.assemble(label, (finding.kind.value, "bold"), "  ", problem))
        out.print(Text.assemble(" " * 9, shown(finding.advice)))
    counts = Counter(finding.severity for finding in found)
    if counts[Severity.ERROR] or counts[Severity.WARNING]:
        figures = f"{counted(counts[Severity.ERROR], 'error')}, {counted(counts[Severity.WARNING], 'warning')}"
        out.print(shown(f"{figures} in {address}"), soft_wrap=True)
    else:
        out.print(shown(f"{address} is sound"))


async def backup(session: Session, folder: Path) -> None:
    """Make a verified backup of the whole store, with all organizations, while others may use it.

    The backup of an encrypted store is encrypted, and needs the same key. A PostgreSQL database has tools of its own.

    Options:
        folder: Folder of the backup, which must not exist yet.
    """
    from factmem.providers import back_up

    async with session.provider() as provider:
        with progress("backing up", quiet=session.as_json) as advance:
            made = await back_up(provider, folder, progress=advance)
    session.show_line(
        _backup_json(made) | {"store": session.shown_address, "backup": str(folder)},
        shown(f"{session.shown_address} was backed up to {folder}: {_size(made)}, verified"),
        f"bring it back with  {session.command_line('restore', str(folder))}",
    )


async def restore(session: Session, folder: Path, replace: bool = False, dry_run: bool = False) -> None:
    """Verify a backup, and replace the store with it.

    A damaged backup is refused, and the store stays as it is. An interrupted restore is finished by the same command.
    End the programs that use the store first. To bring back a single record, use `undo` or `rollback`.

    Options:
        folder: Folder that `backup` made.
        replace: Replace the present store; its files are kept under another name.
        dry_run: Verify the backup, and write nothing.
    """
    from factmem.providers.backups import read_backup, restore_backup

    if dry_run:
        found = await read_backup(folder)
        session.show_line(
            _backup_json(found) | {"backup": str(folder)},
            shown(f"{folder} is whole: {_size(found)}, of the kind {found.kind}, made {_when(found)}"),
        )
        return
    async with session.provider() as provider:
        with progress("restoring", quiet=session.as_json) as advance:
            done = await restore_backup(folder, provider, replace=replace, progress=advance)
    kept = None if done.kept is None else str(done.kept)
    session.show_line(
        _backup_json(done.backup) | {"store": session.shown_address, "backup": str(folder), "kept": kept},
        shown(f"{session.shown_address} is as it was when the backup was made, {_when(done.backup)}"),
        *([] if kept is None else [shown(f"the replaced store is kept: {kept}")]),
    )


def _backup_json(backup: Backup) -> dict[str, Json]:
    return attributes(backup, "kind", "made_at", "digest") | {"files": len(backup.files), "bytes": backup.size}


def _size(backup: Backup) -> str:
    return f"{counted(len(backup.files), 'file')}, {backup.size / 1e6:,.1f} MB"


def _when(backup: Backup) -> str:
    return f"{backup.made_at:%Y-%m-%d %H:%M} UTC"


async def move(
    session: Session,
    source: Annotated[str, typer.Argument(callback=checked_address)],
    target: Annotated[str, typer.Argument(callback=checked_address)],
) -> None:
    """Copy a whole store, with its history, into an empty store of any kind, and compare the two.

    The source stays unchanged. If a move is interrupted, run the same command again; until it is finished, the target
    cannot be used. Run the command again later to copy new records of the source. With --organization, only that tenant
    is copied. Keys of encrypted stores are named in the addresses: encrypted:facts?key_env=NAME.

    Options:
        source: Address of the store to copy.
        target: Address of the empty store to copy into.
    """
    from factmem.memory.moves import move as move_store
    from factmem.providers.memory import InMemoryProvider
    from factmem.providers.registry import open_provider, without_secrets

    if source == target:
        raise InvalidDataError("the source and the target are the same address: name another target")
    organizations = None if session.organization is None else [session.organization]
    async with open_provider(source) as here, open_provider(target) as there:
        if isinstance(there, InMemoryProvider):
            raise InvalidDataError(f"{target} ends with this command: name a target that stays, such as facts.db")
        with progress("moving", quiet=session.as_json) as advance:
            receipt = await move_store(here, there, organizations=organizations, progress=advance)
    source, target = without_secrets(source), without_secrets(target)
    data = attrs.asdict(receipt) | {"arrived": receipt.arrived, "source": source, "target": target}
    session.show(data, lambda out: _print_receipt(out, receipt, target))
    if receipt.behind:
        again = session.command_line("move", source, target)
        session.note(
            f"{receipt.behind} entries were written to the source too late to be included: stop its writers, and run  "
            f"{again}  again"
        )


def _print_receipt(out: Console, receipt: MoveReceipt, target: str) -> None:
    for tenant in receipt.tenants:
        name = "" if tenant.tenant is None else f"{tenant.tenant}: "
        vectors = counted(tenant.vectors, "vector")
        out.print(shown(f"{name}{tenant.entries} entries and {vectors} in both stores, {tenant.digest[:16]}"))
    if receipt.arrived:
        out.print(shown(f"{receipt.arrived} entries were copied to {target}"))
    else:
        out.print(shown(f"{target} has everything already: nothing was written"))
