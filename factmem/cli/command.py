"""How a function becomes a command: global options, an event loop, error reports, exit codes."""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, TypeGuard, TypeVar

import anyio
import attrs
import typer

from factmem.cli.arguments import store_address
from factmem.cli.session import Session
from factmem.cli.wording import in_words
from factmem.errors import FactMemError

__all__ = ["BROKEN_PIPE", "FAILED", "INTERRUPTED", "STDIN", "command", "report"]

FAILED: Final = 1
"""The exit code after an error that was told."""

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C."""

BROKEN_PIPE: Final = 141
"""The exit code when nobody reads the output any more."""

STDIN: Final = Path("-")
"""The name of a file that stands for what is piped in."""

RunT = TypeVar("RunT", bound=Callable[..., Awaitable[None]])


def _text_option(name: str, metavar: str, help: str, callback: Callable[[str | None], str | None] | None = None) -> Any:
    panel = "Global options"
    option = typer.Option(f"--{name}", metavar=metavar, help=help, rich_help_panel=panel, callback=callback)
    return Annotated[str | None, option]


_JSON: Final = typer.Option("--json", help="Write JSON to stdout and nothing else.", rich_help_panel="Global options")
_GLOBAL: Final[dict[str, tuple[Any, Any]]] = {
    "store": (
        _text_option("store", "ADDRESS", "Where the facts are: a path, or NAME:LOCATION.", store_address),
        None,
    ),
    "organization": (_text_option("organization", "NAME", "Whose facts they are: the tenant."), None),
    "viewer": (_text_option("viewer", "NAME", "Who reads; sees and owns private facts."), None),
    "embedder": (_text_option("embedder", "NAME", "What makes the vectors: wordllama, minilm, openai:…"), None),
    "model": (_text_option("model", "ADDRESS", "Who reads what is taken in: openai/MODEL, http://…/v1#MODEL."), None),
    "as_json": (Annotated[bool, _JSON], False),
}


def command(app: typer.Typer, name: str) -> Callable[[RunT], RunT]:
    """Make an async function a command of the app.

    The function takes a `Session` first; its other parameters are the command's own. One that is an attrs class
    stands for options of the names and types of its fields. The global options are added to them, so that they work
    before and after the command's name.
    """

    def register(run: RunT) -> RunT:
        own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]
        blocks = {parameter.name: parameter.annotation for parameter in own if _is_block(parameter.annotation)}

        def call(ctx: typer.Context, **given: Any) -> None:
            before = ctx.find_root().obj or Session()
            session = Session(**{key: given.pop(key) or getattr(before, key) for key in _GLOBAL})
            for name, block in blocks.items():
                given[name] = block(**{field.name: given.pop(field.name) for field in attrs.fields(block)})
            _reporting(functools.partial(_run, run, session, given), as_json=session.as_json)

        _sign(call, [option for parameter in own for option in _options(parameter)])
        app.command(name, help=inspect.getdoc(run))(call)
        return run

    return register


def _is_block(annotation: object) -> TypeGuard[type[attrs.AttrsInstance]]:
    return isinstance(annotation, type) and attrs.has(annotation)


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Yield a parameter, or the fields of the block of options that it stands for."""
    if not _is_block(parameter.annotation):
        yield parameter
        return
    for field in attrs.fields(attrs.resolve_types(parameter.annotation)):
        kind = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(field.name, kind, default=field.default, annotation=field.type)


def _sign(call: Callable[..., None], own: list[inspect.Parameter]) -> None:
    """Give a function the signature that typer reads: the context, a command's own parameters, the global ones."""
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("ctx", kind, annotation=typer.Context)]
    parameters += [parameter.replace(kind=kind) for parameter in own]
    parameters += [
        inspect.Parameter(key, kind, default=default, annotation=annotation)
        for key, (annotation, default) in _GLOBAL.items()
    ]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def _run(run: Callable[..., Awaitable[None]], session: Session, given: dict[str, Any]) -> None:
    anyio.run(functools.partial(run, session, **given))
    sys.stdout.flush()


def _reporting(work: Callable[[], None], *, as_json: bool) -> None:
    """Do some work and turn what goes wrong into a message and an exit code."""
    try:
        work()
    except FactMemError as error:
        report(error, as_json=as_json)
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _abandon_stdout()
        raise typer.Exit(BROKEN_PIPE) from None


def report(error: FactMemError, *, as_json: bool, file: Path | None = None) -> None:
    """Tell an error on stderr, as JSON if that was asked for; with the file that it is about, if it is about one."""
    said = in_words(error)
    name = "stdin" if file == STDIN else str(file or "")
    message = said if said.startswith(name) else f"{name}: {said}"
    if as_json:
        print(json.dumps({"error": {"type": type(error).__name__, "message": message}}), file=sys.stderr)
    else:
        print(f"factmem: {message}", file=sys.stderr)


def _abandon_stdout() -> None:
    """Let what is still buffered go nowhere, so that the interpreter does not complain when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    finally:
        os.close(nowhere)
