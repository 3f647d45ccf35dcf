"""The commands of `factmem`, run with a caller's ``--organization`` and ``--viewer``."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from anyio import to_thread
from typer.testing import CliRunner

from factmem.cli.app import app
from tests.walls.ways import Asked, Door, Neither, Reads, Shows, Way, Writes
from tests.walls.worlds import NOW, Caller, Plant, below
from tests.walls.writing import MARK


@attrs.frozen
class Terminal:
    """A caller's command line, on a store."""

    store: Path
    caller: Caller

    async def run(self, *words: str, plainly: bool = False) -> list[object]:
        """Run a command, and return its exit code and its output."""
        given = ["--store", str(self.store), *([] if plainly else ["--json"])]
        given += [] if self.caller.tenant is None else ["--organization", self.caller.tenant]
        given += [] if self.caller.viewer is None else ["--viewer", self.caller.viewer]
        done = await to_thread.run_sync(lambda: CliRunner().invoke(app, [*given, *words]))
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return [done.exit_code, done.stdout, done.stderr]


def _ran(*commands: Sequence[str] | Callable[[Asked], Sequence[str]]) -> Any:
    async def call(asked: Asked) -> object:
        words = [command(asked) if callable(command) else command for command in commands]
        return [await asked.client.run(*each) for each in words]

    return call


def _with_ids(*words: str, length: int | None = None) -> Any:
    async def call(asked: Asked) -> object:
        return [_without(await asked.client.run(*words, id[:length]), id) for id in asked.ids]

    return call


def _without(told: list[object], id: str) -> list[object]:
    return [item.replace(id, "it") if isinstance(item, str) else item for item in told]


async def _exported(asked: Asked) -> object:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "export.jsonl"
        await asked.client.run("export", str(file))
        return file.read_text(encoding="utf-8")


async def _imported(asked: Asked) -> object:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "export.jsonl"
        await asked.client.run("export", str(file))
        return (await asked.client.run("import", str(file)))[0]


def _keywords(command: str) -> Any:
    async def call(asked: Asked) -> object:
        keywords = ["home", "pets", "statement", *(f"{plant.concept.keyword[:6]}" for plant in asked.some)]
        return [await asked.client.run(command, keyword) for keyword in dict.fromkeys(keywords)]

    return call


def _here(plant: Plant, asked: Asked) -> bool:
    return below(plant.scope, asked.scope)


async def _plainly(asked: Asked) -> object:
    """Run commands without JSON and return their plain output, including hints and notes."""
    commands = (
        ["recall", "green door"],
        ["info"],
        ["tree"],
        ["load", "hom"],
        ["quarantine", "list"],
        ["history", "hom"],
    )
    return [await asked.client.run(*words, plainly=True) for words in commands]


COMMANDS: Final[Mapping[str, Door]] = {
    "recall": Reads(
        [
            Way(_ran(["recall", "the green door", "-n", "99"], ["recall", "cat", "--explain"]), whole=True),
            Way(_ran(lambda asked: ["recall", "cat", "--scope", str(asked.scope)]), only=_here),
            Way(_ran(["recall", "the green door", "--earlier"]), Shows.EVER),
            Way(_plainly, Shows.KEPT),
        ]
    ),
    "load": Reads([Way(_keywords("load"))]),
    "history": Reads([Way(_keywords("history"), Shows.EVER)]),
    "list": Reads(
        [
            Way(_ran(["list", "-n", "999"]), whole=True),
            Way(_ran(lambda asked: ["list", "-n", "999", "--scope", str(asked.scope)]), only=_here),
        ]
    ),
    "show": Reads([Way(_with_ids("show"), Shows.EVER), Way(_with_ids("show", length=16), Shows.EVER)]),
    "tree": Reads([Way(_ran(["tree"], ["tree", "--depth", "1"]))]),
    "info": Reads([Way(_ran(["info"]), whole=True), Way(_ran(lambda asked: ["info", str(asked.scope)]), only=_here)]),
    "profile": Reads([Way(_ran(["profile", "tests.walls.facade:Household"]))]),
    "export": Reads([Way(_exported, Shows.KEPT, whole=True)]),
    "audit": Reads(
        [
            Way(_ran(["audit", "--limit", "9999"]), Shows.KEPT, whole=True),
            Way(_ran(lambda asked: ["audit", "--scope", str(asked.scope), "--limit", "9999"]), Shows.KEPT, only=_here),
            Way(_with_ids("audit"), Shows.KEPT),
        ]
    ),
    "dead-letters list": Reads([Way(_ran(["dead-letters", "list"]), Shows.LETTERS, whole=True)]),
    "quarantine list": Reads([Way(_ran(["quarantine", "list", "-n", "999"]), Shows.APART, whole=True)]),
    "save": Writes([Way(_ran(["save", "home", MARK], ["save", "home", "7", "--type", "int"]), Shows.KEPT)]),
    "update": Writes([Way(_with_ids("update", "--value", f'"{MARK}"'), Shows.KEPT)]),
    "undo": Writes([Way(_with_ids("undo"), Shows.KEPT)]),
    "remember": Writes([Way(_ran(["remember", f"the {MARK} cat sat"]), Shows.KEPT)]),
    "retract": Writes([Way(_with_ids("retract"), Shows.KEPT)]),
    "quarantine accept": Writes([Way(_with_ids("quarantine", "accept"), Shows.KEPT)]),
    "quarantine reject": Writes([Way(_with_ids("quarantine", "reject"), Shows.KEPT)]),
    "dead-letters dismiss": Writes([Way(_with_ids("dead-letters", "dismiss"), Shows.NOTHING)]),
    "rollback": Writes(
        [
            Way(
                lambda asked: _ran(*(["rollback", str(asked.filled.revisions[plant.token])] for plant in asked.some))(
                    asked
                ),
                Shows.KEPT,
            )
        ]
    ),
    "import": Writes([Way(_imported, Shows.NOTHING)]),
    "calibrate": Neither("prints the result of Admin.calibrate: two numbers"),
    "reembed": Writes([Way(_ran(["reembed"]), Shows.NOTHING)]),
    "forget": Writes(
        [
            Way(_ran(["forget", "--expired", "--dry-run"]), Shows.NOTHING),
            Way(_ran(["forget", "--dry-run", "--before", NOW.date().isoformat()]), Shows.KEPT),
            Way(_with_ids("forget", "--yes", "--verify"), Shows.NOTHING),
            Way(_with_ids("forget", "--yes"), Shows.NOTHING),
        ]
    ),
    "resume": Neither("returns counts of the result of Memory.resume; needs a model"),
    "dead-letters retry": Neither("returns the result of DeadLetters.retry; needs a model"),
    "ingest": Neither("returns counts of the results of Memory.remember and remember_many"),
    "extract": Neither("splits a text, and reads nothing stored"),
    "browse": Neither("serves pages whose every address tests/browse/test_web.py asks as other viewers and in a view"),
    "mcp": Neither("serves the server of make_server, whose own paths are listed"),
    "check": Neither("names files and tenants, and counts pending entries, for the operator of the store"),
    "upgrade": Neither("changes the format of a store, and shows no more of it than a check"),
    "backup": Neither("copies the files of a store, and shows their number and length"),
    "restore": Neither("puts the files of a backup in place, and shows their number and length"),
    "move": Neither("names tenants and counts their entries, for the operator of the store"),
    "providers": Neither("lists the installed providers"),
    "new-key": Neither("makes a key"),
    "rotate-key": Neither("changes the key of a store, and shows no content"),
    "demo": Neither("works on a store of its own"),
}
