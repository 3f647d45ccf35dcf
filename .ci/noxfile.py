"""Tasks of the maintainers: ``nox -f .ci/noxfile.py -s quick``; ``-l`` lists them.

Each works in an environment of its own, which is built once and used again. ``.ci/run`` is what has to pass before a
change is merged; these are for the time before.
"""

from __future__ import annotations

from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["quick"]

ROOT = Path(__file__).parents[1]


def installed(session: nox.Session, *groups: str) -> None:
    """Install the package for editing, with all hosts and some dependency groups."""
    session.chdir(ROOT)
    session.install("--quiet", "--editable", ".[all]", *(word for group in groups for word in ("--group", group)))


@nox.session
def quick(session: nox.Session) -> None:
    """Lint, and run the tests that take no time: one event loop, few examples, no other processes."""
    installed(session, "dev")
    session.run("ruff", "check", "--quiet", ".")
    session.run("pytest", "-q", "--quick", *session.posargs)


@nox.session
def check(session: nox.Session) -> None:
    """Lint, check types and run all tests."""
    installed(session, "dev")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("pyright")
    session.run("pytest", "-n", "auto", "--dist", "worksteal", *session.posargs)


@nox.session
def big(session: nox.Session) -> None:
    """Run all tests with their big numbers, on both event loops: for the night."""
    installed(session, "dev")
    session.run("pytest", "-n", "auto", "--dist", "worksteal", "--big", *session.posargs)


@nox.session
def hosts(session: nox.Session) -> None:
    """Resolve factmem with the newest release of each host, and ask the newest hosts' models, without instructor."""
    session.chdir(ROOT)
    session.install("--quiet", "attrs", "packaging", "uv")
    session.run("python", ".ci/resolve_hosts.py", *session.posargs)
    newest = ("pydantic-ai-slim[openai]", "langchain-openai", "openai-agents")
    session.install("--quiet", ".[langchain,langgraph,openai-agents,pydantic-ai]", *newest, "--group", "run-tests")
    tests = ("tests/llm/test_host_models.py", "tests/integrations/test_models_of_hosts.py")
    session.run("pytest", "-q", "-o", "pythonpath=", *tests)


@nox.session
def docs(session: nox.Session) -> None:
    """Write what of the documentation follows from the code, and build the site into docs/site."""
    installed(session, "docs")
    session.run("python", ".ci/make_reference.py")
    session.run("zensical", "build", "--strict", "--config-file", "docs/mkdocs.yml")


@nox.session
def bench(session: nox.Session) -> None:
    """Time the hot paths against their baselines; see benchmarks/ for those that need data or peers."""
    installed(session, "dev")
    for name in ("import_time", "recall", "writes"):
        if (ROOT / "benchmarks" / f"{name}.py").exists():
            session.run("python", f"benchmarks/{name}.py", *session.posargs)
