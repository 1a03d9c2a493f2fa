"""The layers: imports only point down, and each driver or SDK has one place. Read from the source, not from memory."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate

ROOT = Path(tidegate.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# From the bottom up. Each may import itself and whatever stands before it.
LAYERS = ("errors", "policy", "domain", "storage", "core", "tools", "gateway", "agent", "surfaces")
# Beside the layers: what may import them is checked like any import, by the layer given here.
BESIDE = {
    "small_file": "errors",
    "config": "domain",
    "config_channels": "domain",
    "config_reach": "domain",
    "config_servers": "domain",
    "home": "domain",
    "__init__": "surfaces",
    "__main__": "surfaces",
}

# Third-party package: the modules that may import it. A trailing dot means a whole folder.
ALLOWED = {
    "apsw": ("storage.sqlite",),
    "apsw.unicode": ("domain.",),
    "Stemmer": ("domain.",),
    "platformdirs": ("home",),
    "click": ("surfaces.cli",),
    "mcp": ("surfaces.protocol", "surfaces.demo", "gateway.connections", "gateway.wire"),
    "mcp_types": ("surfaces.protocol", "gateway.connections", "gateway.guard", "gateway.wire"),
    "httpx2": ("gateway.http",),
    "pydantic": ("surfaces.protocol", "gateway.connections", "gateway.wire"),
    "anyio": ("surfaces.protocol", "gateway.wire"),
    "pydantic_ai": ("agent.",),
    "cronsim": ("domain.schedule",),
    "apprise": ("agent.delivery",),
    "rich": ("surfaces.",),
}
LINES_MAX = 400
FUNCTION_LINES_MAX = 50


def name_of(module: Path) -> str:
    return ".".join(module.relative_to(ROOT).with_suffix("").parts)


def layer_of(name: str) -> str:
    """The layer of a dotted name below `tidegate`; "" is the package itself."""
    top = name.split(".")[0] or "__init__"
    layer = BESIDE.get(top, top)
    assert layer in LAYERS, f"{name}: not in any layer"
    return layer


def imports(module: Path) -> Iterator[tuple[str, bool]]:
    """Every dotted name that a module imports, and whether it does so when it is loaded."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    typing_only = {id(node) for block in _typing_blocks(tree) for node in ast.walk(block)}
    at_load = {id(node) for node in _outside_functions(tree)}
    for node in ast.walk(tree):
        loaded = id(node) in at_load and id(node) not in typing_only
        if isinstance(node, ast.Import):
            yield from ((alias.name, loaded) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            source = node.module or ""
            for alias in node.names:
                yield f"{source}.{alias.name}" if _is_module(f"{source}.{alias.name}") else source, loaded


def _typing_blocks(tree: ast.Module) -> Iterator[ast.If]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield node


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _outside_functions(child)


def _is_module(dotted: str) -> bool:
    path = ROOT.parent.joinpath(*dotted.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


def own(module: Path) -> Iterator[str]:
    """What a module imports of this project, below `tidegate`."""
    for name, _ in imports(module):
        if name.split(".")[0] == "tidegate":
            yield name.removeprefix("tidegate").removeprefix(".")


def third_party(module: Path) -> Iterator[tuple[str, bool]]:
    for name, loaded in imports(module):
        top = name.split(".")[0]
        if top != "tidegate" and top not in sys.stdlib_module_names:
            yield name, loaded


def test_there_are_modules_to_check() -> None:
    assert len(MODULES) > 20


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_imports_only_point_down(module: Path) -> None:
    here = layer_of(name_of(module))
    for name in own(module):
        assert LAYERS.index(layer_of(name)) <= LAYERS.index(here), f"{name_of(module)} imports {name}"


@pytest.mark.parametrize("module", sorted((ROOT / "policy").glob("*.py")), ids=name_of)
def test_policy_imports_the_standard_library_and_itself_alone(module: Path) -> None:
    assert list(third_party(module)) == []
    assert {layer_of(name) for name in own(module)} <= {"policy"}


@pytest.mark.parametrize("module", sorted((ROOT / "policy").glob("*.py")), ids=name_of)
def test_policy_has_no_clock_no_randomness_and_no_input_or_output(module: Path) -> None:
    forbidden = {"os", "io", "sys", "time", "datetime", "random", "secrets", "uuid", "pathlib", "socket", "logging"}
    assert not forbidden & {name.split(".")[0] for name, _ in imports(module)}


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_only_core_reaches_storage(module: Path) -> None:
    name = name_of(module)
    # The composition of a store chooses the provider; and types that storage gives may be named for the checker.
    if name.split(".")[0] in ("storage", "core") or name == "__init__":
        return
    loaded = [each for each, at_load in imports(module) if each.startswith("tidegate.storage") and at_load]
    assert loaded == []


# Of a library, where it offers no other way.
REACHED_INTO = {("gateway.process", "_transport")}


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_nobody_reaches_into_what_is_anothers(module: Path) -> None:
    # From a session a private attribute or two lead to every compartment: past the gate, and past the imports above.
    nodes = list(ast.walk(ast.parse(module.read_text(encoding="utf-8"))))
    here = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    reached = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.endswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "os"))
    }
    assert {(name_of(module), attribute) for attribute in reached - here} <= REACHED_INTO


@pytest.mark.parametrize("module", sorted((ROOT / "tools").glob("*.py")), ids=name_of)
def test_tools_use_nothing_of_a_session_but_what_a_model_may(module: Path) -> None:
    used = {
        node.attr
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "session"
    }
    assert used <= {"memory", "todos", "jobs", "limits"}  # P2, P4: raising, ending and marking are the host's


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_each_driver_has_one_place(module: Path) -> None:
    name = name_of(module)
    for package, _ in third_party(module):
        places = ALLOWED.get(package) or ALLOWED.get(package.split(".")[0])
        assert places is not None, f"{name} imports {package}, which has no place yet"
        assert any(name.startswith(place) for place in places), f"{name} imports {package}"


def test_libraries_of_the_extras_are_never_imported_by_the_command_line_as_it_loads() -> None:
    heavy = {"fastmcp", "mcp", "pydantic", "anyio", "apsw", "pydantic_ai", "rich", "asyncio"}
    for module in (ROOT / "surfaces").glob("cli*.py"):
        loaded = {name.split(".")[0] for name, at_load in imports(module) if at_load}
        assert not heavy & loaded, name_of(module)


def test_there_are_no_import_cycles_between_modules() -> None:
    below = {name_of(module).removesuffix(".__init__"): {*_loaded_modules(module)} for module in MODULES}
    while leaves := {name for name, needs in below.items() if not needs & below.keys() - {name}}:
        below = {name: needs for name, needs in below.items() if name not in leaves}
    assert below == {}, "in a cycle, or above one"


def _loaded_modules(module: Path) -> Iterator[str]:
    for name, at_load in imports(module):
        if at_load and name.startswith("tidegate."):
            yield name.removeprefix("tidegate.")


def test_folders_are_two_levels_deep_at_most() -> None:
    assert all(len(module.relative_to(ROOT).parts) <= 2 for module in MODULES)


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_modules_are_short_enough_to_read(module: Path) -> None:
    assert module.read_text(encoding="utf-8").count("\n") <= LINES_MAX, "look for the second noun"


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_functions_fit_on_a_screen(module: Path) -> None:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= FUNCTION_LINES_MAX, f"{node.name}: {lines} lines"


@pytest.mark.parametrize("package", sorted(ROOT.glob("*/__init__.py")), ids=name_of)
def test_only_the_root_re_exports(package: Path) -> None:
    tree = ast.parse(package.read_text(encoding="utf-8"))
    exported = [
        node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and "__all__" in ast.unparse(node)
    ]
    assert exported == []


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_nothing_is_guarded_by_assert(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_every_module_says_what_it_is(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
