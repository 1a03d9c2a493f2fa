"""The home: the folder that holds everything. This module only reads."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from tidegate.errors import InvalidArgument, StorageError
from tidegate.files import reason_of

# `scheme:` and, except on Windows, `C:`: never meant as a folder.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:" if os.name == "nt" else r"[A-Za-z][A-Za-z0-9+.-]*:")


def find_home(home: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the absolute path of the home: `home`, else $TIDEGATE_HOME, else the platform's user data folder.

    It need not exist. A path is never read as a URI; a leading `~` is the user's folder.
    Raises: InvalidArgument if the place does not exist or cannot be a folder, StorageError if it cannot be read.
    """
    if home is not None and not isinstance(home, str | Path):
        raise _bad_home("must be a string or a Path")  # `str` would turn bytes into another name
    named = environ.get("TIDEGATE_HOME") or None if home is None else str(home)
    path = _default(environ) if named is None else _named(named)
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            raise _bad_home("is not a folder")
    except FileNotFoundError:
        return path  # the first save creates it
    except NotADirectoryError:
        raise _bad_home("a part of the path is a file") from None
    except OSError as error:
        raise StorageError(f"home: cannot be read; {reason_of(error, 'check its permissions')}") from None
    return path


def _default(environ: Mapping[str, str]) -> Path:
    from platformdirs import user_data_path

    hint = "set TIDEGATE_HOME or give --home"
    user = environ.get("HOME", "")
    if os.path.isabs(user) and not os.path.isdir(user) and not os.path.isabs(environ.get("XDG_DATA_HOME", "")):
        raise _bad_home(f"the folder in $HOME does not exist; {hint}")
    try:
        path = user_data_path("tidegate", appauthor=False)
    except RuntimeError:
        raise _bad_home(f"cannot find this user's data folder; {hint}") from None
    if not path.is_absolute():
        raise _bad_home(f"cannot find this user's data folder; {hint}")
    return path


def _named(text: str) -> Path:
    expanded = os.path.expanduser(text) if text.startswith("~") else text
    if not expanded.strip() or "\0" in expanded:
        raise _bad_home("must be the path of a folder")
    if expanded.startswith("~"):
        raise _bad_home("this '~' names no user's folder; give the full path")
    if _SCHEME.match(expanded):
        raise _bad_home("must be a folder, not a URL or drive; put './' before a folder with such a name")
    try:
        os.fsencode(expanded)
        expanded.encode()
    except UnicodeEncodeError:
        raise _bad_home("this locale cannot encode the folder's name; set PYTHONUTF8=1") from None
    return Path(os.path.abspath(expanded))


def _bad_home(reason: str) -> InvalidArgument:
    return InvalidArgument(f"home: {reason}", argument="home")
