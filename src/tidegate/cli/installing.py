"""The command that installs what is missing, where this very program is installed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname


def install_command(requirement: str) -> str:
    """Return the command for a requirement such as `tidegate[agent]`, to be run in the current folder.

    It is for the owner's terminal alone: it may hold paths, of the interpreter and of a checkout (P12).
    """
    python = _interpreter()
    installer = [python, "-m", "pip", "install"] if find_spec("pip") else ["uv", "pip", "install", "--python", python]
    ours = requirement.startswith("tidegate[")
    words = _this_package(requirement.removeprefix("tidegate"), _origin()) if ours else [requirement]
    return shlex.join([*installer, *words])


def _this_package(extras: str, origin: dict[str, Any]) -> list[str]:
    """Return what names this package with extras, as it was installed: a checkout that no registry knows, say."""
    url = str(origin.get("url", ""))
    if not url:
        return [f"tidegate{extras}"]
    if "dir_info" in origin:
        folder = url2pathname(urlsplit(url).path)
        here = os.path.isdir(folder) and os.path.samefile(folder, os.curdir)
        place = f"{'.' if here else folder}{extras}"
        return ["-e", place] if origin["dir_info"].get("editable") else [place]
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    return [f"tidegate{extras} @ {url}"]


def _origin() -> dict[str, Any]:
    """Return where this package was installed from (PEP 610); {} for a registry."""
    try:
        found: dict[str, Any] = json.loads(distribution("tidegate").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return {}
    return found


def _interpreter() -> str:
    """Return the shortest name that starts this interpreter here: a virtual environment need not be active."""
    python = sys.executable
    name = os.path.basename(python)
    if shutil.which(name) == python:
        return name
    beside = os.path.relpath(python)
    return python if beside.startswith(os.pardir) or os.sep not in beside else beside
