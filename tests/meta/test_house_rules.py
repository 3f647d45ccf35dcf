"""Rules of the house that a reviewer would otherwise repeat."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import pytest

from factmem import errors

DUMPING_GROUNDS = {"base", "common", "core", "helpers", "misc", "util", "utils"}
RIDDLE = re.compile(r"(What|Who|Where|How|Whose|Which|Whoever|Whatever)\b|(When|Why)\b(?![^.]*,)")
"""First words of a relative clause in place of a phrase or an imperative. "When" may open a sentence with a comma."""
AVOIDED = re.compile(
    r"""
    \b(?:whoever | told(?!\ apart))\b                                        # reader or caller; shown or passed
    | \bhand(?:s|ed|ing)?\ (?:\w+\ )?(?:in|out|over)\b(?!\ of)                 # pass, return
    | (?<!there\ )\b(?:is|are|was|were)\ no\ (?!longer\b|more\b|less\b|one\b)\w+  # is not a
    | \b(?:organis(?=[ae])|(?:recogn|normal|serial|capital|vector|summar)is(?=[ei]))\w+  # -ize
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Phrases with a plain alternative, which stands beside each."""
FRONT_DOORS = {"factmem", "factmem.abc", "factmem.memory", "factmem.recall", "factmem.detection", "factmem.testing"}


@pytest.fixture(scope="module")
def held(exports: Mapping[str, list[str]]) -> list[type]:
    """The attrs classes in the vocabulary and in the packages' public modules."""
    doors = [module for module in exports if module in FRONT_DOORS or _is_vocabulary(module)]
    found = [getattr(importlib.import_module(module), name) for module in doors for name in exports[module]]
    return sorted({cls for cls in found if inspect.isclass(cls) and attrs.has(cls)}, key=str)


def test_what_people_hold_is_frozen(held: list[type], modules: Mapping[str, ast.Module]) -> None:
    """Data never changes. A class that does change has state of its own, which is not an argument."""
    wrong = [
        f"{cls.__module__}.{cls.__qualname__}"
        for cls in held
        if "frozen" not in _decorators(modules[cls.__module__], cls)
        and all(field.init and not field.name.startswith("_") for field in attrs.fields(cls))
    ]
    assert wrong == []


def test_what_people_hold_is_keyword_only_after_the_first_two_fields(
    held: list[type], modules: Mapping[str, ast.Module]
) -> None:
    """Readers need not count positions to know the meaning of an argument."""
    wrong = [
        f"{cls.__module__}.{cls.__qualname__}"
        for cls in held
        if "frozen" in _decorators(modules[cls.__module__], cls)
        and sum(field.init and not field.kw_only for field in attrs.fields(cls)) > 2
    ]
    assert wrong == []


def test_data_classes_are_attrs_classes(modules: Mapping[str, ast.Module]) -> None:
    """There is one way to define data."""
    wrong = [
        f"{module}.{node.name}"
        for module, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(item) for item in node.decorator_list)
    ]
    assert wrong == []


def test_everything_public_has_a_docstring(modules: Mapping[str, ast.Module]) -> None:
    """Modules, classes, functions, methods and properties; an override has the docstring of its contract."""
    wrong = [
        f"{module}.{where}"
        for module, tree in modules.items()
        if not any(part.startswith("_") and part != "__main__" for part in module.split("."))
        for where, node in [("", tree), *_public_definitions(tree)]
        if not ast.get_docstring(node) and not _is_override(node)
    ]
    assert wrong == []


def test_docstrings_are_phrases_or_imperatives_in_plain_words(sources: Mapping[str, ast.Module]) -> None:
    """A summary is not a relative clause, and data is shown, passed or returned. Tests and examples are included."""
    wrong = [
        f"{where}: {found[0]}"
        for where, text in _docstrings(sources)
        if (found := RIDDLE.match(text) or AVOIDED.search(text))
    ]
    assert wrong == []


def test_messages_use_plain_words(modules: Mapping[str, ast.Module]) -> None:
    """Errors and help texts are in the same words as docstrings."""
    wrong = [
        f"{module}:{line}: {found[0]}"
        for module, tree in modules.items()
        for line, text in _messages(tree)
        if (found := AVOIDED.search(text))
    ]
    assert wrong == []


def test_no_module_is_a_dumping_ground(module_paths: Mapping[str, Path]) -> None:
    """A module's name says what it holds."""
    assert [module for module in module_paths if module.rpartition(".")[2].strip("_") in DUMPING_GROUNDS] == []


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    """The docstring of `factmem.errors` shows every error below its base, with the built-in it also is."""
    drawn = {name: (parent, builtin) for name, parent, builtin in _drawn_tree(inspect.getdoc(errors) or "")}
    actual = {}
    for name, error in vars(errors).items():
        if not isinstance(error, type) or not issubclass(error, Exception) or name.startswith("_"):
            continue
        bases = list(_public_bases(error))
        ours = [base.__name__ for base in bases if base.__module__ == errors.__name__]
        builtins = [base.__name__ for base in bases if base.__module__ == "builtins" and base is not Exception]
        actual[name] = (next(iter(ours), None), next(iter(builtins), None))
    assert drawn == actual


def test_contributing_names_what_is_there(root: Path) -> None:
    """A maintainer finds the start of a change there: files by their paths, and names in them."""
    page = (root / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:factmem|providers|tests|docs|\.ci|\.github)/[\w./*-]*)`", page)
    named = re.findall(r"`(\w+)` in `([\w./-]+)`", page)
    assert len(paths) > 50
    assert len(named) > 4
    built = {"docs/site"}
    assert [path for path in paths if path not in built and not any(root.glob(path.rstrip("/")))] == []
    assert [(name, path) for name, path in named if name not in (root / path).read_text(encoding="utf-8")] == []
    rows = re.findall(r"^\| `([\w/]+/)` \|(.*)\|$", page, re.MULTILINE)
    modules = [(package, module) for package, row in rows for module in re.findall(r"`(\w+\.py)`", row)]
    assert len(modules) > 10
    assert [(package, module) for package, module in modules if not (root / package / module).exists()] == []


def test_every_package_says_that_it_is_typed(root: Path, module_paths: Mapping[str, Path]) -> None:
    """Type checkers read the annotations of an installed package only if it has the marker."""
    packages = {path.parent for name, path in module_paths.items() if "." not in name and path.name == "__init__.py"}
    assert [str(package.relative_to(root)) for package in packages if not (package / "py.typed").exists()] == []


def test_files_are_made_in_one_module_alone(modules: Mapping[str, ast.Module]) -> None:
    """`factmem.private_files` keeps modes, links and temporary names in order for all but the tools of tests."""
    wrong = [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module, tree in modules.items()
        if module != "factmem.private_files" and not module.startswith("factmem.testing.")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _makes_files(node)
    ]
    assert wrong == []


def _makes_files(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in {"open", "fdopen", "open_file", "FileIO"}:
        given = [ast.unparse(item) for item in (*call.args, *(keyword.value for keyword in call.keywords))]
        modes = any(re.fullmatch(r"'[rbt]*[wax+][rwaxbt+]*'", item) for item in given)
        return modes or any(re.search(r"O_(CREAT|WRONLY|RDWR)", item) and "os.devnull" not in given for item in given)
    return name in {"mkdir", "makedirs", "write_text", "write_bytes", "touch", "mkstemp", "mkdtemp", "symlink_to"}


def _is_vocabulary(module: str) -> bool:
    return module.startswith("factmem.") and module.count(".") == 1


def _decorators(tree: ast.Module, cls: type) -> str:
    return " ".join(
        ast.unparse(decorator)
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__
        for decorator in node.decorator_list
    )


def _public_definitions(
    node: ast.Module | ast.ClassDef, prefix: str = ""
) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in node.body:
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if child.name.startswith(("_", "test_")) or "overload" in map(ast.unparse, child.decorator_list):
            continue
        yield prefix + child.name, child
        if isinstance(child, ast.ClassDef):
            yield from _public_definitions(child, f"{prefix}{child.name}.")


def _messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of errors that are raised, and of the help of options."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg == "help"):
            for part in ast.walk(node):
                match part:
                    case ast.Constant(value=str(text)):
                        yield part.lineno, text


def _docstrings(modules: Mapping[str, ast.Module]) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of every docstring, those below attributes and constants included."""
    for module, tree in modules.items():
        for node in ast.walk(tree):
            match node:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield f"{module}:{node.lineno}", inspect.cleandoc(text)


def _is_override(node: ast.AST) -> bool:
    return any(ast.unparse(item) == "override" for item in getattr(node, "decorator_list", ()))


def _drawn_tree(docstring: str) -> Iterator[tuple[str, str | None, str | None]]:
    above: dict[int, str] = {}
    for line in docstring.splitlines():
        stem = line.lstrip(" │├└─")
        name = stem.split(" ")[0]
        if not name.endswith("Error") or not line.startswith("    "):
            continue
        depth = (len(line) - len(stem)) // 4 - 1
        above[depth] = name
        _, bracket, rest = stem.partition(f"{name} (")
        yield name, above[depth - 1] if depth else None, rest.partition(")")[0] if bracket else None


def _public_bases(cls: type[BaseException]) -> Iterator[type]:
    """Yield the public bases of a class; a private base is replaced by its own bases."""
    for base in cls.__bases__:
        yield from _public_bases(base) if base.__name__.startswith("_") else (base,)


# Tracked files contain nothing of a developer's machine


# Split in two, so that this file does not contain the text it searches for.
MACHINE_PATHS = ["/" + "root/", "/" + "work/", "/" + "farm/", "/" + "tmp/v/", "/" + r"home/\w+/", "/" + r"Users/\w+/"]
REGISTRIES = [
    "pypi" + r"\.org",
    "python" + r"hosted\.org",
    "npm" + r"js\.",
    r"--(extra-)?index" + "-url",
    "PIP_" + "INDEX",
]
FOREIGN = re.compile("|".join(MACHINE_PATHS + REGISTRIES))
TEXT = {".cfg", ".json", ".jsonl", ".md", ".py", ".pyi", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}


def _tracked(root: Path) -> list[Path]:
    if shutil.which("git") is None or not (root / ".git").exists():
        pytest.skip("not a git checkout, so the tracked files could NOT be looked through")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    return [root / name for name in listed.split("\0") if name and (root / name).is_file()]


def test_no_tracked_file_names_a_machine_or_a_registry(root: Path) -> None:
    """Paths of one machine and hosts of one registry would break, or reveal, somebody's set-up."""
    found = [
        f"{path.relative_to(root)}:{number}"
        for path in _tracked(root)
        if path.suffix in TEXT
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if FOREIGN.search(line)
    ]
    assert found == []


def test_no_tracked_file_is_left_over_from_a_run(root: Path) -> None:
    """Stores, caches and bytecode are not committed."""
    leftovers = {".db", ".db-shm", ".db-wal", ".pyc", ".orig", ".rej"}
    assert [str(path.relative_to(root)) for path in _tracked(root) if path.suffix in leftovers] == []
