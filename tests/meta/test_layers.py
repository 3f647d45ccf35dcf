"""Imports point one way: from the interfaces down to the vocabulary."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

VOCABULARY = {
    *("changes", "codec", "details", "entry_points", "errors", "facts", "store_findings", "fold"),
    *("hidden_characters", "error_hints", "json_form", "json_stream", "lazy_names", "media", "patterns"),
    *("progress", "legal_names", "records", "scopes", "class_fields", "shapes", "stemming", "structuring"),
    *("subjects", "time_phrases", "toml_tables", "validators", "value_types", "values", "vectors", "views"),
    *("languages", "own_words", "sentences", "text_caches", "short_work", "grouping"),
}
MIDDLE = {"crypto", "providers", "detection", "consolidation", "recall", "reranking"}
INTERFACES = {"integrations", "browse", "mcp"}
STARTERS = {"cli"}
"""The command line starts the other interfaces."""
LAYERS = [
    VOCABULARY,
    {"abc"},
    {"conversations", "observing", "event_loops", "private_files"},
    {"llm"},
    MIDDLE,
    {"memory"},
    {"agent", "importers"},
    {"testing"},
    INTERFACES,
    STARTERS,
    {"__main__"},
]
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}


def test_every_part_of_the_package_has_a_layer(modules: Mapping[str, ast.Module]) -> None:
    """A new part needs a place in the order before it can be merged."""
    parts = {_part(name) for name in modules if name.startswith("factmem.")}
    assert parts - RANK.keys() == set()


def test_a_module_imports_only_from_its_own_part_and_the_layers_below(modules: Mapping[str, ast.Module]) -> None:
    """The order of imports is that of the design; parts of one layer do not import each other."""
    within = [pair for pair in _of_factmem(modules) if all(module.startswith("factmem.") for module in pair)]
    assert [pair for pair in within if not _may_import(*map(_part, pair))] == []


def test_no_modules_import_each_other(modules: Mapping[str, ast.Module], module_paths: Mapping[str, Path]) -> None:
    """Imports for type checkers and within functions count; a package only passes on the names of its modules."""
    files = {name for name, path in module_paths.items() if path.name != "__init__.py"}
    imported = {
        name: {
            each for target, names in _imports(modules[name]) for each in (target, *(f"{target}.{n}" for n in names))
        }
        for name in files
    }
    graphlib.TopologicalSorter({name: targets & files for name, targets in imported.items()}).prepare()


def test_no_layer_below_the_interfaces_imports_the_package_itself(modules: Mapping[str, ast.Module]) -> None:
    """`factmem/__init__.py` collects the public names; no module that it collects may need it."""
    importing = [name for name, to in _of_factmem(modules) if to == "factmem" and name != "factmem"]
    assert [name for name in importing if RANK.get(_part(name), 0) < RANK["integrations"]] == []


def test_the_core_never_imports_a_provider(modules: Mapping[str, ast.Module]) -> None:
    """Providers are found by their entry points, built-in ones like third-party ones."""
    assert [pair for pair in _of_factmem(modules) if pair[1].startswith("factmem_")] == []


def test_providers_examples_and_benchmarks_use_only_public_names(
    modules: Mapping[str, ast.Module], exports: Mapping[str, list[str]], root: Path
) -> None:
    """A third party's provider can do everything that a built-in one can."""
    outside = {name: tree for name, tree in modules.items() if name.startswith("factmem_")}
    ours = {name.split(".")[0] for name in modules}
    for path in [*root.glob("examples/**/*.py"), *root.glob("benchmarks/*.py")]:
        outside[str(path.relative_to(root))] = ast.parse(path.read_text(encoding="utf-8"))
    wrong = [
        f"{user} imports {target}: {name or 'underscored module'}"
        for user, tree in outside.items()
        for target, names in _imports(tree)
        if target.split(".")[0] == "factmem" or (target.split(".")[0] in ours and not user.startswith("factmem_"))
        for name in _private(target, names, modules, exports)
    ]
    assert wrong == []


def _part(module: str) -> str:
    return module.split(".")[1]


def _may_import(importer: str, imported: str) -> bool:
    return importer == imported or RANK[imported] < RANK[importer] or RANK[importer] == RANK[imported] == 0


def _of_factmem(modules: Mapping[str, ast.Module]) -> list[tuple[str, str]]:
    """Return each module of the core with each that it imports."""
    core = {name: tree for name, tree in modules.items() if name.split(".")[0] == "factmem"}
    return [(name, target) for name, tree in core.items() for target, _ in _imports(tree)]


def _imports(tree: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield every import in a module: the module it names, and the names it takes from it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from ((alias.name, ()) for alias in aliases)
            case ast.ImportFrom(module=str(module), level=0, names=aliases):
                yield module, tuple(alias.name for alias in aliases)
            case ast.ImportFrom():
                yield "factmem_relative_import", ()


def _private(
    target: str, names: Iterable[str], modules: Mapping[str, ast.Module], exports: Mapping[str, list[str]]
) -> list[str]:
    if any(segment.startswith("_") for segment in target.split(".")):
        return [""]
    submodules = {name for name in modules if name.rpartition(".")[0] == target}
    public = exports.get(target, ())
    return [name for name in names if name not in public and f"{target}.{name}" not in submodules]
