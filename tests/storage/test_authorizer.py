"""The second wall (P17): what a connection may do once it is confined, whoever got hold of it and with whatever SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from tests.storage.scene import bytes_of, columns_of, database, draft, event_of, opened

from tidegate.policy.levels import Level
from tidegate.storage.sqlite.connection import SqliteConnection
from tidegate.storage.sqlite.files import open_audit, open_compartment, open_control
from tidegate.storage.sqlite.witness import _OPENED, _STATE_ACTIONS

WRITES = [
    "INSERT INTO records SELECT * FROM records",
    "UPDATE records SET content = 'x'",
    "DELETE FROM records",
    "DELETE FROM versions",
    "INSERT INTO terms (rowid, key, tags, content) VALUES (9, 'x', '', '')",
    "INSERT INTO terms (terms) VALUES ('optimize')",
    "DELETE FROM terms WHERE rowid = 1",
    "UPDATE statistics SET documents = 0",
    "DELETE FROM vocabulary",
    "UPDATE compartment SET analysis = 0",
]
NEVER = [
    "ATTACH '{other}' AS other",
    "ATTACH ':memory:' AS other",
    "DETACH main",
    "VACUUM",
    "VACUUM INTO '{copy}'",
    "REINDEX",
    "ANALYZE",
    "CREATE TABLE x (y)",
    "CREATE TEMP TABLE x (y)",
    "CREATE TABLE x AS SELECT * FROM records",
    "CREATE INDEX x ON records (content)",
    "CREATE VIEW x AS SELECT 1",
    "CREATE TEMP VIEW x AS SELECT 1",
    "CREATE TRIGGER x AFTER INSERT ON records BEGIN SELECT 1; END",
    "CREATE TEMP TRIGGER x AFTER INSERT ON records BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE x USING fts5 (y)",
    "CREATE VIRTUAL TABLE temp.x USING fts5vocab (main, terms, row)",
    "DROP TABLE records",
    "DROP TABLE audit",
    "DROP INDEX live",
    "ALTER TABLE records RENAME TO x",
    "ALTER TABLE records ADD COLUMN x",
    "ALTER TABLE records DROP COLUMN nonce",
    "SAVEPOINT x",
    "PRAGMA user_version = 7",
    "PRAGMA journal_mode = delete",
    "PRAGMA writable_schema = on",
    "PRAGMA trusted_schema = on",
    "PRAGMA wal_checkpoint(truncate)",
    "PRAGMA temp_store_directory = '/tmp'",
    "PRAGMA database_list",
    "PRAGMA table_info(records)",
    "PRAGMA integrity_check",
    "PRAGMA query_only = off",
    "PRAGMA key = 'x'",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM pragma_table_info('records')",
    "SELECT load_extension('x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('{copy}', 'x')",
    "SELECT fts5_source_id()",
    "SELECT randomblob(9)",
    "SELECT hex(content) FROM records",
    "SELECT sqlite_version()",
    "SELECT snippet(terms, 0, '', '', '', 9) FROM terms WHERE terms MATCH 'apple'",
    "SELECT avg(version) FROM records",
    "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
    "INSERT INTO sqlite_schema VALUES ('table', 'x', 'x', 0, 'x')",
    "UPDATE sqlite_schema SET sql = 'x'",
    "DELETE FROM sqlite_schema",
    "UPDATE audit SET detail = 'x'",
    "UPDATE AUDIT SET detail = 'x'",
    "DELETE FROM audit",
    "REPLACE INTO audit SELECT * FROM audit",
    "INSERT OR REPLACE INTO audit VALUES (1, 0, '', 'save', '', '', '', '')",
    "INSERT OR IGNORE INTO audit VALUES (1, 0, '', 'save', '', '', '', '')",
    "INSERT INTO audit VALUES (1, 0, '', '', '', '', '', '') ON CONFLICT (sequence) DO UPDATE SET detail = 'x'",
    "INSERT INTO audit SELECT sequence + 9, at, session, action, detail, commitment, previous_hash, hash FROM audit",
    "UPDATE compartment SET agent = 'x'",
    "UPDATE OR REPLACE Compartment SET Level = 'PUBLIC', analysis = 1",
    "UPDATE compartment SET rowid = 9",
    "UPDATE compartment SET id = 'c'",
    "INSERT OR REPLACE INTO compartment VALUES ('x', 'PUBLIC', 'c', 1)",
    "DELETE FROM compartment",
    "INSERT INTO compartment VALUES ('assistant', 'RESTRICTED', 'c', 1)",
    "UPDATE terms_data SET block = zeroblob(9)",
    "DELETE FROM terms_docsize",
]


@pytest.fixture
def made(home: Path) -> Path:
    with opened(home) as store:
        for level in Level:
            store.session("assistant", level.name, level).memory.save("k", "apple", ["t"])
    return home


@pytest.fixture(params=["writable", "read-only"])
def connection(request: pytest.FixtureRequest, made: Path) -> Iterator[SqliteConnection]:
    writable = request.param == "writable"
    found = open_compartment(database(made), "assistant", Level.PUBLIC, writable=writable, synchronous="NORMAL")
    yield found
    found.close()


def refused(connection: SqliteConnection, statement: str) -> bool:
    try:
        connection.execute(statement).fetchall()
    except apsw.Error:
        return True
    return False


@pytest.mark.parametrize("statement", NEVER)
def test_nobody_reaches_another_file_the_schema_the_settings_or_what_the_audit_says(
    connection: SqliteConnection, made: Path, tmp_path: Path, statement: str
) -> None:
    words = {"other": database(made, Level.RESTRICTED), "copy": tmp_path / "copy"}
    before = bytes_of(made)
    assert refused(connection, statement.format(**words))
    assert not connection.in_transaction
    assert {name: data for name, data in bytes_of(made).items() if name in before} == before
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("statement", WRITES)
def test_p5_the_look_at_the_audit_takes_no_write(made: Path, statement: str) -> None:
    with closing(open_audit(database(made), "assistant", Level.PUBLIC)) as connection, pytest.raises(apsw.AuthError):
        connection.execute(statement)


@pytest.mark.parametrize(
    "source", ["records", "versions", "tags", "terms", "terms_docsize", "vocabulary", "statistics", "compartment"]
)
def test_p5_the_look_at_the_audit_reads_nothing_else(made: Path, source: str) -> None:
    with closing(open_audit(database(made), "assistant", Level.PUBLIC)) as connection:
        assert connection.execute("SELECT session FROM audit").fetchall()
        for statement in (f"SELECT * FROM {source}", f"SELECT session FROM audit, {source}"):
            with pytest.raises((apsw.AuthError, apsw.SQLError)):
                connection.execute(statement).fetchall()
        for statement in NEVER:
            assert refused(connection, statement.format(other=made / "x", copy=made / "x"))


@pytest.mark.parametrize(("statement", "index"), [(_STATE_ACTIONS, "standings"), (_OPENED, "openings")])
def test_the_look_at_the_audit_goes_by_an_index_and_not_through_the_chain(
    made: Path, statement: str, index: str
) -> None:
    with closing(apsw.Connection(str(database(made)))) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", ("s",) if "?" in statement else ()).fetchall()
    assert index in str(plan)
    assert "TEMP B-TREE" not in str(plan)


@pytest.mark.parametrize("statement", WRITES)
def test_a_lower_file_takes_no_write(made: Path, statement: str) -> None:
    connection = open_compartment(database(made), "assistant", Level.PUBLIC, writable=False, synchronous="NORMAL")
    with pytest.raises(apsw.AuthError):
        connection.execute(statement)
    connection.authorizer = None  # the first wall stands without the second: the file itself is open for reading only
    with pytest.raises(apsw.ReadOnlyError):
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("statement", WRITES)
def test_the_own_file_takes_what_the_verbs_write(made: Path, statement: str) -> None:
    connection = open_compartment(database(made), "assistant", Level.PUBLIC, writable=True, synchronous="NORMAL")
    connection.execute("BEGIN")
    if statement == "INSERT INTO records SELECT * FROM records":  # allowed; what it meets is the uniqueness of keys
        with pytest.raises(apsw.ConstraintError):
            connection.execute(statement)
    else:
        connection.execute(statement).fetchall()
    connection.execute("ROLLBACK")
    connection.close()


def test_the_walls_stand_before_a_connection_is_handed_out(made: Path) -> None:
    with opened(made) as store:
        store.session("assistant", "PUBLIC").memory.get("k")
    control = open_control(made / "control.db", writable=False)
    for statement in ("UPDATE sessions SET taint = 'PUBLIC'", "DELETE FROM sessions", "DROP TABLE sessions"):
        with pytest.raises(apsw.AuthError):
            control.execute(statement)
    control.close()


def test_what_a_view_hands_out_is_confined(home: Path) -> None:
    from tidegate.storage.sqlite.provider import SqliteProvider

    provider = SqliteProvider(home)
    with provider.writable_view("assistant", Level.INTERNAL) as view:
        version = draft("k")
        with view.own.transaction():
            view.own.put(version, columns_of(version))
            view.own.append(event_of(view.own.place, version))
        for each in view.visible:
            with pytest.raises(apsw.AuthError):
                each._db.execute("ATTACH ':memory:' AS other")  # type: ignore[attr-defined]
        with pytest.raises(apsw.AuthError):
            view.visible[1]._db.execute("DELETE FROM records")  # type: ignore[attr-defined]
    provider.close()


def test_words_in_double_quotes_are_names_and_never_strings(connection: SqliteConnection) -> None:
    with pytest.raises(apsw.SQLError):
        connection.execute('SELECT "no such name" FROM records')
