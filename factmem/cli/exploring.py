"""The commands that show what is where: ``tree``, ``info``, ``providers``."""

from __future__ import annotations

import datetime as dt
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer
from anyio import to_thread

from factmem.cli.arguments import ExactOption
from factmem.cli.command import command
from factmem.cli.session import Session
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

    from factmem.memory import Memory, ScopeInfo, ScopeTree

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add these commands to the app."""
    command(app, "tree")(tree)
    command(app, "info")(info)
    command(app, "providers")(providers)


async def tree(session: Session) -> None:
    """Show the tree of scopes, with how many records each holds."""
    async with session.memory() as memory:
        root = await memory.tree()
        await session.note_if_empty(memory)

    def render(out: Console) -> None:
        from rich.tree import Tree

        shown_tree = Tree(f"{session.organization or 'everything'}  {root.records}")
        _grow(shown_tree, root)
        out.print(shown_tree)

    session.show(_tree_json(root), render)


def _grow(branch: Tree, node: ScopeTree) -> None:
    from factmem.cli.output import shown

    for child in node.children:
        _grow(branch.add(f"{shown(child.name)}  {child.records}"), child)


def _tree_json(node: ScopeTree) -> dict[str, Json]:
    return {
        "name": node.name,
        "scope": str(node.scope) if node.scope else None,
        "records": node.records,
        "children": [_tree_json(child) for child in node.children],
    }


async def info(
    session: Session,
    scope: Annotated[str | None, typer.Argument(metavar="[SCOPE]", help="Which scope; else everything.")] = None,
    exact: ExactOption = False,
) -> None:
    """Sum up what is kept: how much, since when, which concepts, subjects and categories."""
    async with session.memory(scope=scope) as memory:
        found = await memory.info(scope, exact=exact)
        waiting = await _waiting(memory) if scope is None else {}
        await session.note_if_empty(memory)
    data = _info_json(session, found) | waiting

    def render(out: Console) -> None:
        from rich.text import Text

        from factmem.cli.output import shown

        for name, value in data.items():
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            if value not in (None, []) and not (name in waiting and not value):
                out.print(Text.assemble((f"{name:<13}", "dim"), shown(text)))

    session.show(data, render)


async def _waiting(memory: Memory) -> dict[str, Json]:
    """What is no fact yet."""
    return {
        "quarantined": len(await memory.quarantine.list()),
        "dead_letters": len(await memory.dead_letters.list()),
    }


def _info_json(session: Session, found: ScopeInfo) -> dict[str, Json]:
    return {
        "store": session.address,
        "organization": session.organization,
        "viewer": session.viewer,
        "scope": str(found.scope) if found.scope else None,
        "records": found.records,
        "oldest": _iso(found.oldest),
        "newest": _iso(found.newest),
        "keywords": list(found.keywords),
        "subjects": list(found.subjects),
        "categories": list(found.categories),
        "scopes": [str(child) for child in found.children],
    }


def _iso(moment: dt.datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None


@attrs.frozen(kw_only=True)
class _Examined:
    """A provider that is installed.

    Attributes:
        name: what addresses call it.
        package: the distribution that brings it.
        factory: what makes it.
        capabilities: what it can do beyond the four verbs.
        problem: why it cannot be imported.
    """

    name: str
    package: str | None
    factory: str
    capabilities: tuple[str, ...] = ()
    problem: str | None = None


async def providers(session: Session) -> None:
    """List the stores that are installed, and what each can do."""
    from factmem.providers import provider_entry_points

    found = [await to_thread.run_sync(_examined, point) for point in provider_entry_points().values()]

    def render(out: Console) -> None:
        from rich.text import Text

        width = max((len(provider.name) for provider in found), default=0) + 2
        for provider in found:
            origin = f"{provider.package}  {provider.factory}"
            out.print(Text.assemble((f"{provider.name:<{width}}", "bold"), (origin, "dim")))
            told = provider.problem or ", ".join(provider.capabilities) or "the four verbs"
            out.print(Text(f"{'':<{width}}{told}", style="red" if provider.problem else ""))

    session.show([attrs.asdict(item) | {"importable": item.problem is None} for item in found], render)


def _examined(point: EntryPoint) -> _Examined:
    """Import a provider and say what it can do, or why it cannot be imported."""
    from factmem.testing import capabilities_of

    known = _Examined(name=point.name, package=point.dist.name if point.dist else None, factory=point.value)
    try:
        provider: Any = point.load()
        bare = object.__new__(provider) if isinstance(provider, type) else None
    except ModuleNotFoundError as error:
        return attrs.evolve(known, problem=f"{error.name} is not installed: run  pip install 'factmem[{point.name}]'")
    except Exception as error:  # whatever a third party's import brings up
        return attrs.evolve(known, problem=f"cannot be imported: {type(error).__name__}")
    return attrs.evolve(known, capabilities=tuple(capabilities_of(bare)) if bare is not None else ())
