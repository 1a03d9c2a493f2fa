"""Run the benchmarks and print one JSON object.

python -m benchmarks [--sizes 1000,10000,100000,1000000] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import apsw

import tidegate
from benchmarks import processes, search, verbs

SIZES = (1_000, 10_000, 100_000, 1_000_000)


def at_size(home: Path, size: int) -> dict[str, Any]:
    """Return all figures of one store of `size` memories, a quarter of them at each level."""
    with tidegate.open(home) as store:
        filled = verbs.fill(store, size)
        bytes_used = sum(file.stat().st_size for file in home.rglob("*.db"))
        return {
            "save_many": {"us a memory": filled, "bytes a memory": round(bytes_used / size)},
            "get": verbs.get(store, home),
            "call_tool": verbs.call(store),
            "save": verbs.save(store, home),
            "list": verbs.listing(store),
            "delete": verbs.delete(store),
            "search": search.search(store, home, size),
            # They add memories, some of which a question above would match.
            "similar": verbs.similar(store),
            "context": verbs.context(store),
        }


def main() -> None:
    """Measure, and print the report; progress goes to standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of memories, by commas")
    parser.add_argument("--folder", help="where the stores are made; default: the system's temporary folder")
    options = parser.parse_args()
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "sqlite": apsw.sqlite_lib_version()}
    report: dict[str, Any] = {"machine": machine, "sizes": {}}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        report["startup"] = processes.startup(Path(folder) / "startup")
        report["opening"] = processes.opening(Path(folder) / "opening")
        report["four writers"] = processes.writers(Path(folder) / "writers")
        report["hidden matches"] = verbs.hidden(Path(folder) / "hidden")
        for size in map(int, options.sizes.split(",")):
            print(f"{size:,} memories", file=sys.stderr)
            report["sizes"][size] = at_size(Path(folder) / str(size), size)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
