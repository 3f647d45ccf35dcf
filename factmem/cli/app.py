"""The app: global options, the table of commands, and how an async function becomes a command."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, TypeGuard, get_args, get_origin

import anyio
import attrs
import typer
from typer.core import TyperGroup

import factmem
from factmem.cli.options import OPTIONS
from factmem.cli.session import BROKEN_PIPE, FAILED, INTERRUPTED, Session, report
from factmem.errors import FactMemError, StoreUnavailableError

_COMMANDS: Final[Mapping[str, str | Mapping[str, str]]] = {
    "demo": "demo:demo",
    "ingest": "ingest:ingest",
    "remember": "writing:remember",
    "extract": "writing:extract",
    "resume": "inbox:resume",
    "dead-letters": {"list": "inbox:list_letters", "retry": "inbox:retry", "dismiss": "inbox:dismiss"},
    "quarantine": {"list": "inbox:list_quarantined", "accept": "inbox:accept", "reject": "inbox:reject"},
    "recall": "reading:recall",
    "list": "reading:list_",
    "show": "reading:show",
    "load": "reading:load",
    "history": "reading:history",
    "profile": "reading:profile",
    "save": "writing:save",
    "update": "writing:update",
    "undo": "writing:undo",
    "retract": "writing:retract",
    "rollback": "writing:rollback",
    "forget": "erasing:forget",
    "tree": "store:tree",
    "info": "store:info",
    "check": "store:check",
    "upgrade": "store:upgrade",
    "providers": "store:providers",
    "audit": "reading:audit",
    "export": "store:export",
    "import": "ingest:import_",
    "reembed": "store:reembed",
    "calibrate": "store:calibrate",
    "backup": "store:backup",
    "restore": "store:restore",
    "move": "store:move",
    "new-key": "store:new_key",
    "rotate-key": "store:rotate_key",
    "browse": "serving:browse",
    "mcp": "serving:mcp",
}
"""Every command in the order of the help page: the module below `factmem.cli` and the function in it.

A module is imported when one of its commands runs or shows its help, so that a command pays for itself alone.
"""

_GROUPS: Final = {
    "dead-letters": "List, retry or dismiss texts that the language model failed to read.",
    "quarantine": "List, accept or reject records that are not believed yet.",
}

_SETTINGS: Final[dict[str, Any]] = {
    "no_args_is_help": True,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class _LazyGroup(TyperGroup):
    """A group that imports the module of a command when the command is looked up."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(_COMMANDS)  # type: ignore[assignment]  # their names, for suggestions

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name; None for an unknown name."""
        return _built(cmd_name) if cmd_name in _COMMANDS else None


@functools.cache
def _built(name: str) -> Any:
    """Return the command or the group of commands of an entry of `_COMMANDS`."""
    entry = _COMMANDS[name]
    group = typer.Typer(name=name, help=_GROUPS.get(name), add_completion=False, **_SETTINGS)
    for command, target in ({name: entry} if isinstance(entry, str) else entry).items():
        module, _, function = target.partition(":")
        run = getattr(importlib.import_module(f"factmem.cli.{module}"), function)
        group.command(command, help=_documented(run)[0])(_command(run))
    return typer.main.get_command(group)


app: Final = typer.Typer(
    name="factmem",
    help="A typed fact store for AI agents: save what was said, and find it again with its source.",
    cls=_LazyGroup,
    **_SETTINGS,
)


_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY


def _print_version(asked: bool) -> None:
    if asked:
        print(f"factmem {factmem.__version__}")
        raise typer.Exit


def _global_parameters(panel: str | None = None) -> Iterator[inspect.Parameter]:
    """Yield the global options; without a panel, those before the command's name, which read the environment."""
    for parameter in _options(inspect.Parameter("session", _KEYWORD, annotation=Session), {}):
        described = get_args(parameter.annotation)[-1]
        described.rich_help_panel = panel
        if panel is None and parameter.name != "as_json":
            described.envvar = f"FACTMEM_{parameter.name.upper()}"
        yield parameter


def _sign(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> None:
    """Give a function the signature that typer reads: the context and these parameters."""
    context = inspect.Parameter("ctx", _KEYWORD, annotation=typer.Context)
    function.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in (context, *parameters)}


def _global_options(
    ctx: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
    **given: Any,
) -> None:
    ctx.obj = Session(**given)


def _command(run: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Return the function that typer calls for an async command.

    The command takes a `Session` first; its other parameters are its own options. A parameter whose type is an
    attrs class stands for one option per field. The global options are added, so that they work before and after
    the command's name.
    """
    own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]
    blocks = {parameter.name: parameter.annotation for parameter in own if _is_block(parameter.annotation)}

    def call(ctx: typer.Context, **given: Any) -> None:
        before = ctx.find_root().obj or Session()
        session = Session(**{key: given.pop(key) or getattr(before, key) for key in attrs.fields_dict(Session)})
        for name, block in blocks.items():
            given[name] = block(**{field.name: given.pop(field.name) for field in attrs.fields(block)})
        _reporting(functools.partial(run, session, **given), as_json=session.as_json)

    options = [option for parameter in own for option in _options(parameter, _documented(run)[1])]
    _sign(call, [*options, *_global_parameters("Global options")])
    return call


def _is_block(annotation: object) -> TypeGuard[type[attrs.AttrsInstance]]:
    return isinstance(annotation, type) and attrs.has(annotation)


def _options(parameter: inspect.Parameter, helps: Mapping[str, str]) -> Iterator[inspect.Parameter]:
    """Yield a parameter as typer reads it, or one for each field of the block of options that it stands for."""
    if not _is_block(block := parameter.annotation):
        yield _option(parameter.name, parameter.annotation, parameter.default, helps)
        return
    for field in attrs.fields(attrs.resolve_types(block)):
        yield _option(field.name, field.type, field.default, _documented(block)[1])


def _option(name: str, annotation: Any, default: Any, helps: Mapping[str, str]) -> inspect.Parameter:
    """Return an option or an argument, with the help that the docstring of its command or its block has for it.

    What has a default is an option of the parameter's name, and a truth value is a flag, unless `OPTIONS` or the
    annotation says otherwise.
    """
    kind, *given = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    if given:
        described = copy.copy(given[-1])
    elif default is inspect.Parameter.empty:
        described = typer.Argument(metavar=name.upper())
    elif name in OPTIONS:
        described = copy.copy(OPTIONS[name])
    else:
        described = typer.Option(*([f"--{name.replace('_', '-')}"] if kind is bool else []))
    described.help = helps.get(name, described.help)
    if isinstance(described, typer.models.OptionInfo) and list in {
        get_origin(part) for part in (kind, *get_args(kind))
    }:
        described.help += " May be repeated."
    return inspect.Parameter(name, _KEYWORD, default=default, annotation=Annotated[kind, described])


def _documented(thing: object) -> tuple[str, dict[str, str]]:
    """Return the docstring of a command or a block of options: the text, and the help of each option by its name."""
    text, *listed = re.split(r"\n+(?:Options|Attributes):\n", inspect.getdoc(thing) or "", maxsplit=1)
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", "".join(listed), re.MULTILINE)
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    return "\n\n".join(paragraphs), {name: " ".join(help.split()) for name, help in entries}


def _reporting(command: Callable[[], Awaitable[None]], *, as_json: bool) -> None:
    """Run a command and turn its errors into a message and an exit code."""
    try:
        anyio.run(command)
        sys.stdout.flush()
    except FactMemError as error:
        report(error, as_json=as_json)
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _discard_output()
        raise typer.Exit(BROKEN_PIPE) from None
    except OSError as error:  # of the output: those of stores are errors of factmem
        _discard_output()
        report(StoreUnavailableError(f"the output cannot be written: {error.strerror}"), as_json=as_json)
        raise typer.Exit(FAILED) from None


def _discard_output() -> None:
    """Redirect stdout to nowhere, so that the interpreter does not fail to flush it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    finally:
        os.close(nowhere)


_sign(_global_options, [*_global_parameters(), inspect.signature(_global_options, eval_str=True).parameters["version"]])
app.callback()(_global_options)
