"""The house: imports only point down, and each driver, name and room has one place. Read from the source.

One test a rule: it names all offenders at once.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import tidegate

ROOT = Path(tidegate.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# From the bottom up: folders, and modules at the root. Each may import itself and whatever comes before it.
LAYERS = (
    "policy",
    "errors",
    "search",
    "records",
    "audit",
    "files",
    "storage",
    "core",
    "jobs",
    "config",
    "owner",
    "transfer",
    "session",
    "store",
    "tools",
    "gateway",
    "server",
    "agent",
    "worker",
    "cli",
    "__init__",
    "__main__",
)

# Third-party package: the modules that may import it. A trailing dot means a whole folder.
ALLOWED = {
    "apsw": ("storage.sqlite.",),
    "apsw.unicode": ("records.",),
    "Stemmer": ("search.",),
    "platformdirs": ("config.home",),
    "click": ("cli.",),
    "mcp": ("server.protocol", "server.resources", "cli.demo", "gateway.connections", "gateway.wire"),
    "mcp_types": ("server.", "gateway.connections", "gateway.tool_list", "gateway.wire"),
    "httpx2": ("gateway.http",),
    "pydantic": ("server.protocol", "server.gateway_tools", "gateway.connections", "gateway.tool_list", "gateway.wire"),
    "anyio": ("server.", "gateway.wire"),
    "pydantic_ai": ("agent.model",),
    "openai": ("agent.model_stream",),
    "cronsim": ("jobs.schedule",),
    "yaml": ("transfer.importers.front_matter",),
    "apprise": ("worker.delivery",),
    "rich": ("cli.",),
}
# Module names that occur more than once: the folder tells what each is about.
TWICE = {
    "context",  # the block in a prompt; what the owner's acts need
    "control_store",  # of each provider
    "doctor",  # the examination; its command
    "expiry",  # the rule; the view without what has expired
    "files",  # the owner's; those of a home
    "memory",  # the values, the verbs, the tools, the commands
    "owner",  # the acts; their commands
    "provider",  # of each storage
    "schema",  # of tools; of database files
    "servers",  # the policy on them, their configuration, the commands that serve
    "session",  # the public face; its commands
    "todo",  # the value; its command
    "todos",  # the verbs; the tools
    "transfer",  # the owner's acts; their commands
    "witness",  # what opening asks; what each provider answers
}
STORAGE_TYPES = ("tidegate.storage.base", "tidegate.storage.control")
# What takes a view or a compartment from `core` may name its type.
TAKES_VIEWS = ("jobs", "owner", "transfer", "session", "store")
# What looks at the files of a home.
REACHES_STORAGE = {"owner.doctor"}
LINES_MAX = 400
FUNCTION_LINES_MAX = 50
DEPTH_MAX = 3


@cache
def tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def name_of(module: Path) -> str:
    return ".".join(module.relative_to(ROOT).with_suffix("").parts)


def layer_of(name: str) -> str:
    """The layer of a dotted name below `tidegate`; "" is the package itself."""
    return name.split(".")[0] or "__init__"


def imports(module: Path) -> Iterator[tuple[str, bool]]:
    """Every dotted name that a module imports, and whether it does so when it is loaded."""
    typing_only = {id(node) for block in _typing_blocks(tree(module)) for node in ast.walk(block)}
    at_load = {id(node) for node in _outside_functions(tree(module))}
    for node in ast.walk(tree(module)):
        loaded = id(node) in at_load and id(node) not in typing_only
        if isinstance(node, ast.Import):
            yield from ((alias.name, loaded) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            source = node.module or ""
            for alias in node.names:
                yield f"{source}.{alias.name}" if _is_module(f"{source}.{alias.name}") else source, loaded


def _typing_blocks(node: ast.Module) -> Iterator[ast.If]:
    for each in ast.walk(node):
        if isinstance(each, ast.If) and isinstance(each.test, ast.Name) and each.test.id == "TYPE_CHECKING":
            yield each


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _outside_functions(child)


@cache
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
        if name.split(".")[0] not in {"tidegate", *sys.stdlib_module_names}:
            yield name, loaded


def loaded_modules(module: Path) -> Iterator[str]:
    for name, at_load in imports(module):
        if at_load and name.startswith("tidegate."):
            yield name.removeprefix("tidegate.")


def modules(folder: str) -> list[Path]:
    return [module for module in MODULES if name_of(module).startswith(f"{folder}.")]


def functions(module: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_every_module_has_a_layer() -> None:
    assert len(MODULES) > 100
    assert {layer_of(name_of(module)) for module in MODULES} == set(LAYERS)


def test_imports_only_point_down() -> None:
    # The package itself is imported by commands, when they run.
    upward = [
        f"{name_of(module)} imports {name}"
        for module in MODULES
        for name in own(module)
        if name and LAYERS.index(layer_of(name)) > LAYERS.index(layer_of(name_of(module)))
    ]
    assert upward == []


def test_policy_imports_the_standard_library_and_itself_alone() -> None:
    foreign = [name for module in modules("policy") for name, _ in third_party(module)]
    above = [name for module in modules("policy") for name in own(module) if layer_of(name) != "policy"]
    assert foreign + above == []


def test_policy_has_no_clock_no_randomness_and_no_input_or_output() -> None:
    forbidden = {"os", "io", "sys", "time", "datetime", "random", "secrets", "uuid", "pathlib", "socket", "logging"}
    used = {name.split(".")[0] for module in modules("policy") for name, _ in imports(module)}
    assert used & forbidden == set()


def test_above_core_only_types_of_storage_are_named() -> None:
    # The root composes a store and chooses its provider.
    reaching = [
        f"{name_of(module)} imports {name}"
        for module in MODULES
        if layer_of(name_of(module)) not in ("storage", "core", "__init__")
        for name, at_load in imports(module)
        if name.startswith("tidegate.storage")
        and at_load
        and not (name in STORAGE_TYPES and layer_of(name_of(module)) in TAKES_VIEWS)
        and name_of(module) not in REACHES_STORAGE
    ]
    assert reaching == []


def test_no_two_public_classes_share_a_name() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in MODULES:
        for node in tree(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name_of(module))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_modules_share_a_name_only_where_the_folder_tells_them_apart() -> None:
    names = Counter(module.stem for module in MODULES if module.stem != "__init__")
    assert {name for name, count in names.items() if count > 1} == TWICE


# Of a library, where it offers no other way.
REACHED_INTO = {("gateway.process", "_transport"), ("agent.model_stream", "_streamed_response_cls")}


def test_nobody_reaches_into_what_is_anothers() -> None:
    # From a session a private attribute or two lead to every compartment: past the gate, and past the imports above.
    reached = set()
    for module in MODULES:
        nodes = list(ast.walk(tree(module)))
        here = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        reached |= {
            (name_of(module), node.attr)
            for node in nodes
            if isinstance(node, ast.Attribute)
            and node.attr.startswith("_")
            and not node.attr.endswith("__")
            and node.attr not in here
            and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "os"))
        }
    assert reached == REACHED_INTO


def test_tools_use_nothing_of_a_session_but_what_a_model_may() -> None:
    used = {
        node.attr
        for module in modules("tools")
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "session"
    }
    assert used <= {"memory", "todos", "jobs", "limits"}  # P2, P4: raising, ending and marking are the host's


def test_each_driver_has_one_place() -> None:
    misplaced = [
        f"{name_of(module)} imports {package}"
        for module in MODULES
        for package, _ in third_party(module)
        if not name_of(module).startswith(ALLOWED.get(package) or ALLOWED.get(package.split(".")[0], ()))
    ]
    assert misplaced == []


def test_libraries_of_the_extras_are_never_imported_by_the_command_line_as_it_loads() -> None:
    heavy = {"fastmcp", "mcp", "pydantic", "anyio", "apsw", "pydantic_ai", "rich", "asyncio"}
    eager = {"cli.chat_session", "cli.demo", "cli.terminal"}  # loaded by their commands, when these run
    loaded = [
        f"{name_of(module)} imports {name}"
        for module in modules("cli")
        if name_of(module) not in eager
        for name, at_load in imports(module)
        if at_load and name.split(".")[0] in heavy
    ]
    assert loaded == []


# What commands share, and what is one command's own.
SHARED = {"cli.common", "cli.installing", "cli.output"}
PARTS = {
    "cli.chat": {"cli.chat_session"},
    "cli.chat_session": {"cli.terminal"},
    "cli.servers": {"cli.demo"},
    "cli.tools": {"cli.tool_changes"},
}


def test_commands_do_not_import_one_another() -> None:
    wrong = [
        f"{name_of(module)} imports {name}"
        for module in modules("cli")
        for name in own(module)
        if name.startswith("cli.") and name not in SHARED | PARTS.get(name_of(module), set())
    ]
    assert wrong == []


def test_there_are_no_import_cycles_between_modules() -> None:
    below = {name_of(module).removesuffix(".__init__"): {*loaded_modules(module)} for module in MODULES}
    while leaves := {name for name, needs in below.items() if not needs & below.keys() - {name}}:
        below = {name: needs for name, needs in below.items() if name not in leaves}
    assert below == {}, "in a cycle, or above one"


def test_folders_are_two_levels_deep_at_most() -> None:
    assert [name_of(module) for module in MODULES if len(module.relative_to(ROOT).parts) > DEPTH_MAX] == []


def test_modules_are_short_enough_to_read() -> None:
    lines = {name_of(module): module.read_text(encoding="utf-8").count("\n") for module in MODULES}
    assert {name: count for name, count in lines.items() if count > LINES_MAX} == {}, "look for the second noun"


def test_functions_fit_on_a_screen() -> None:
    lengths = {
        f"{name_of(module)}.{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for module in MODULES
        for node in functions(module)
    }
    assert {name: count for name, count in lengths.items() if count > FUNCTION_LINES_MAX} == {}


def test_only_the_root_re_exports() -> None:
    exporting = [
        name_of(package)
        for package in ROOT.glob("*/**/__init__.py")
        for node in tree(package).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and "__all__" in ast.unparse(node)
    ]
    assert exporting == []


def test_nothing_is_guarded_by_assert() -> None:
    guarded = [name_of(module) for module in MODULES for node in ast.walk(tree(module)) if isinstance(node, ast.Assert)]
    assert guarded == []


def test_every_module_says_what_it_is() -> None:
    assert [name_of(module) for module in MODULES if not ast.get_docstring(tree(module))] == []


# A docstring says what the function does, beginning with a verb in the imperative (PEP 257).
NO_VERBS = {
    *("A", "All", "An", "Any", "As", "At", "Each", "Every", "For", "How", "If", "In", "Its", "It", "No", "Nothing"),
    *("None", "Of", "One", "Or", "Other", "So", "Some", "That", "The", "Their", "Those", "This", "To", "Up", "What"),
    *("When", "Where", "Whether", "Which", "Whatever", "Who", "Whose", "Why", "With", "Without"),
}


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    wrong = [
        f"{name_of(module)}.{node.name}: {first}"
        for module in MODULES
        for node in functions(module)
        if (first := (ast.get_docstring(node) or "Verb").split()[0].strip(",.:;")) in NO_VERBS
    ]
    assert wrong == []
