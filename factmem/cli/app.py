"""The app: its global options and its commands."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from factmem.cli import (
    auditing,
    demo,
    erasing,
    exchanging,
    exploring,
    ingesting,
    keys,
    lifecycle,
    profiling,
    reading,
    remembering,
    removing,
    saving,
    serving,
    waiting,
)
from factmem.cli.arguments import store_address
from factmem.cli.session import Session

__all__ = ["app"]

app: Final = typer.Typer(
    name="factmem",
    help="A typed fact store for AI agents: keep what was said, and get it back with its source.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"factmem {version('factmem')}")
        raise typer.Exit


@app.callback()
def _global_options(
    ctx: typer.Context,
    store: Annotated[
        str | None,
        typer.Option(
            envvar="FACTMEM_STORE",
            callback=store_address,
            metavar="ADDRESS",
            help="Where the facts are: a path, or NAME:LOCATION. Else a file in your data folder.",
        ),
    ] = None,
    organization: Annotated[
        str | None,
        typer.Option(envvar="FACTMEM_ORGANIZATION", metavar="NAME", help="Whose facts they are: the tenant."),
    ] = None,
    viewer: Annotated[
        str | None,
        typer.Option(envvar="FACTMEM_VIEWER", metavar="NAME", help="Who reads; sees and owns private facts."),
    ] = None,
    embedder: Annotated[
        str | None,
        typer.Option(
            envvar="FACTMEM_EMBEDDER",
            metavar="NAME",
            help="What makes the vectors: wordllama (the default), minilm or openai:MODEL@DIMENSION.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            envvar="FACTMEM_MODEL",
            metavar="ADDRESS",
            help="Who reads what is taken in: openai/MODEL, PROVIDER/MODEL or http://HOST:PORT/v1#MODEL. Else nobody.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON to stdout and nothing else.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Tell the version.")
    ] = False,
) -> None:
    ctx.obj = Session(
        store=store, organization=organization, viewer=viewer, embedder=embedder, model=model, as_json=as_json
    )


_PARTS: Final = (
    *(demo, ingesting, remembering, waiting, reading, profiling),
    *(saving, removing, erasing, lifecycle, exploring, auditing, exchanging, keys, serving),
)
for _part in _PARTS:
    _part.add_to(app)
