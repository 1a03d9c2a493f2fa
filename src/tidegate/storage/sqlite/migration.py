"""Migration: upgrade a file of an earlier schema when it is first opened, and keep a copy of it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

from tidegate.storage.sqlite.connection import SqliteConnection, copy_file, open_file, schema_version, transaction
from tidegate.storage.sqlite.failures import driver_errors, os_error
from tidegate.storage.sqlite.schema import (
    COMPARTMENT_VERSION,
    CONTROL_MIGRATIONS,
    CONTROL_VERSION,
    MIGRATIONS,
)


def migrate(path: Path) -> None:
    """Upgrade a compartment's file to the present schema in one transaction: after a kill it is unchanged.

    A copy of the file stays beside it, for the owner, until the next purge. Raises: StorageError.
    """
    with driver_errors(path), closing(open_file(path, writable=True, synchronous="FULL")) as connection:
        _keep_copy(connection, path)
        _advance(connection, COMPARTMENT_VERSION, MIGRATIONS)


def migrate_control(path: Path) -> None:
    """Upgrade the control store to the present schema in the same way. Raises: StorageError.

    It keeps no copy: restoring an older control store would lower taints.
    """
    with driver_errors(path), closing(open_file(path, writable=True, synchronous="FULL")) as connection:
        _advance(connection, CONTROL_VERSION, CONTROL_MIGRATIONS)


def copies_of(path: Path) -> list[Path]:
    """Return the copies of a file that migrations left. They have its level; a purge or erasure removes them."""
    return sorted(path.parent.glob(f"{path.name}.schema-*"))


def _advance(connection: SqliteConnection, version: int, migrations: Mapping[int, str]) -> None:
    with transaction(connection):
        for each in range(schema_version(connection), version):  # empty if another process was first
            connection.execute(migrations[each])
        connection.pragma("user_version", version)


def _keep_copy(connection: SqliteConnection, path: Path) -> None:
    """Keep a copy, which gets its name when it is complete. `copies_of` also finds what a kill leaves."""
    copy = path.with_name(f"{path.name}.schema-{schema_version(connection)}")
    new = copy.with_name(f"{copy.name}.{secrets.token_hex(8)}.new")
    try:
        if copy.exists() and copy.stat().st_size > 0:
            return
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        copy_file(connection, new)
        new.replace(copy)
    except OSError as error:
        unwritable = "home: cannot be written; nothing was upgraded or changed; check its permissions and free space"
        raise os_error(error, unwritable) from None
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)
