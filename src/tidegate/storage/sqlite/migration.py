"""Files of an earlier schema: brought up to date when they are first opened, with a copy of the earlier file."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

from tidegate.errors import StorageError
from tidegate.storage.sqlite.connection import SqliteConnection, copy_file, driver_errors, open_file, transaction
from tidegate.storage.sqlite.schema import (
    COMPARTMENT_VERSION,
    CONTROL_MIGRATIONS,
    CONTROL_VERSION,
    MIGRATIONS,
)


def migrate(path: Path) -> None:
    """Bring a compartment's file to the present schema, in one transaction: after a kill it is as it was.

    A copy of the file stays beside it, for the owner, until the next purge. Raises: StorageError.
    """
    with driver_errors(), closing(open_file(path, writable=True, synchronous="FULL")) as connection:
        _keep_copy(connection, path)
        _advance(connection, COMPARTMENT_VERSION, MIGRATIONS)


def migrate_control(path: Path) -> None:
    """Bring the control store to the present schema, likewise. Raises: StorageError.

    No copy: an older control store that is put back lowers taints.
    """
    with driver_errors(), closing(open_file(path, writable=True, synchronous="FULL")) as connection:
        _advance(connection, CONTROL_VERSION, CONTROL_MIGRATIONS)


def copies_of(path: Path) -> list[Path]:
    """Return the copies that migrations left of a file. They have its level, and go when it is purged or erased."""
    return sorted(path.parent.glob(f"{path.name}.schema-*"))


def _advance(connection: SqliteConnection, version: int, migrations: Mapping[int, str]) -> None:
    with transaction(connection):
        for each in range(_version(connection), version):  # none, if another process was first
            connection.execute(migrations[each])
        connection.pragma("user_version", version)


def _keep_copy(connection: SqliteConnection, path: Path) -> None:
    """Keep a copy, which gets its name only once it is whole. `copies_of` finds what a kill leaves of one as well."""
    copy = path.with_name(f"{path.name}.schema-{_version(connection)}")
    new = copy.with_name(f"{copy.name}.{secrets.token_hex(8)}.new")
    try:
        if copy.exists() and copy.stat().st_size > 0:
            return
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        copy_file(connection, new)
        new.replace(copy)
    except OSError:
        raise StorageError("home: cannot be written; the store of an earlier version was not touched") from None
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def _version(connection: SqliteConnection) -> int:
    return int(str(connection.pragma("user_version")))
