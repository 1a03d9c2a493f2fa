"""Mutation testing: small faults put into policy, gate and sessions, one at a time, which the tests must find.

    python -m tests.mutation [MODULE ...]

For each fault a process runs the fastest tests that should notice it. What no test notices is printed; each survivor
must be explained in docs/mutation.md, or be killed by a new test.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
TESTS = {
    "policy/levels.py": ["tests/policy"],
    "policy/rules.py": ["tests/policy"],
    "policy/servers.py": ["tests/policy"],
    "policy/result_labels.py": ["tests/policy/test_result_labels.py"],
    "policy/events.py": ["tests/policy", "tests/test_model.py", "tests/test_stateful.py"],
    "policy/session_state.py": ["tests/policy", "tests/test_model.py"],
    "core/gate.py": [
        "tests/core/test_gate.py",
        "tests/test_model.py",
        "tests/core",
        "tests/attacks",
        "tests/test_leaks.py",
    ],
    "core/flow.py": [
        "tests/gateway/test_gateway.py",
        "tests/core/test_conversation.py",
        "tests/jobs/test_session_jobs.py",
        "tests/core/test_sessions.py",
    ],
    "core/judgement.py": ["tests/core/test_sessions.py", "tests/core/test_gate.py", "tests/core/test_conversation.py"],
    "core/session_change.py": ["tests/core/test_sessions.py", "tests/gateway/test_gateway.py"],
    "core/sessions.py": [
        "tests/core/test_sessions.py",
        "tests/core/test_witness.py",
        "tests/storage/test_readonly.py",
        "tests/test_model.py",
        "tests/attacks",
        "tests/core/test_conversation.py",
        "tests/owner/test_erase.py",
        "tests/gateway/test_gateway.py",
        "tests/jobs/test_session_jobs.py",
        "tests/cli/test_session.py",
    ],
}
HANGS_AFTER = 3
"""How many times as long as without a fault the tests may take."""
FLIPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: the module with it, where it is, and what it does."""

    module: str
    line: int
    what: str
    code: str


def mutants(module: str) -> Iterator[Mutant]:
    """Every fault that the module can be given."""
    text = (SOURCE / "tidegate" / module).read_text()
    for number in range(len(list(_places(ast.parse(text))))):
        tree = ast.parse(text)
        node, what = list(_places(tree))[number]
        _break(node)
        yield Mutant(module, getattr(node, "lineno", 0), what, ast.unparse(ast.fix_missing_locations(tree)))


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Compare(ops=[operator]) if type(operator) in FLIPPED:
                yield node, f"{ast.unparse(node)}: other comparison"
            case ast.BoolOp():
                yield node, f"{ast.unparse(node)}: other junction"
            case ast.If() | ast.IfExp():
                yield node, f"if {ast.unparse(node.test)}: never"
            case ast.Call(func=ast.Name(id="max" | "min")):
                yield node, f"{ast.unparse(node)}: the other end"
            case ast.UnaryOp(op=ast.Not()):
                yield node, f"{ast.unparse(node)}: without not"
            case ast.Expr(value=ast.Call()) | ast.Raise():
                yield node, f"{ast.unparse(node)}: left out"


def _break(node: ast.AST) -> None:
    match node:
        case ast.Compare():
            node.ops = [FLIPPED[type(node.ops[0])]()]  # type: ignore[list-item]
        case ast.BoolOp():
            node.op = FLIPPED[type(node.op)]()  # type: ignore[assignment]
        case ast.If() | ast.IfExp():
            node.test = ast.Constant(False)
        case ast.Call(func=ast.Name() as name):
            name.id = "min" if name.id == "max" else "max"
        case ast.UnaryOp():
            node.op = ast.UAdd()
            node.operand = ast.Call(ast.Name("bool", ast.Load()), [node.operand], [])
        case ast.Expr():
            node.value = ast.Constant(None)
        case ast.Raise():
            node.exc, node.cause = ast.Call(ast.Name("SystemError", ast.Load()), [], []), None


def survives(mutant: Mutant, *, seconds: float) -> bool:
    """Whether the tests pass with it. The mutant lies before the real package on the path of one process only.

    seconds: how long they may take; a fault with which they do not come to an end is noticed as well.
    """
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "tidegate"
        package.mkdir()
        for path in (SOURCE / "tidegate").rglob("*"):
            target = package / path.relative_to(SOURCE / "tidegate")
            if path.is_dir():
                target.mkdir(exist_ok=True)
            elif path.suffix != ".pyc":
                target.symlink_to(path)
        (package / mutant.module).unlink()
        (package / mutant.module).write_text(mutant.code)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS[mutant.module]]
        environment = {**os.environ, "PYTHONPATH": folder, "TIDEGATE_MUTANT": "1"}
        try:
            ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return False
        return ran.returncode == 0


def seconds_of(module: str) -> float:
    """How long its tests may take: some times as long as without a fault, with which they must pass."""
    began = time.monotonic()
    if not survives(Mutant(module, 0, "nothing", (SOURCE / "tidegate" / module).read_text()), seconds=3600):
        sys.exit(f"{module}: its tests fail without any fault, so that nothing can be told")
    return HANGS_AFTER * (time.monotonic() - began)


def main() -> None:
    chosen = sys.argv[1:] or list(TESTS)
    todo = [(mutant, seconds) for module in chosen for seconds in [seconds_of(module)] for mutant in mutants(module)]
    survivors = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ran = pool.map(lambda each: survives(each[0], seconds=each[1]), todo)
        for number, ((mutant, _), survived) in enumerate(zip(todo, ran, strict=True), 1):
            print(f"\r{number} of {len(todo)}", end="", file=sys.stderr)
            if survived:
                survivors += 1
                print(f"{mutant.module}:{mutant.line} {mutant.what}", flush=True)
    print(f"\n{len(todo)} mutants, {survivors} survived", file=sys.stderr)
    sys.exit(survivors > 0)


if __name__ == "__main__":
    main()
