"""The schema of a compartment's file and of the control store's, which any SQLite tool can read.

Times are whole microseconds since 1970 in UTC. Levels are written by name. `PRAGMA user_version` is the version.
"""

from __future__ import annotations

COMPARTMENT_VERSION = 6
CONTROL_VERSION = 3

UNCONFIRMED = "?"
"""The prefix of an id that a migration gave a compartment, until the control store has it."""

_VOCABULARY = """\
CREATE TABLE vocabulary (            -- words of the index, for spelling
    word TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
"""

_STANDINGS = """\
CREATE INDEX standings ON audit (session, action) WHERE action IN ('open', 'raise', 'call', 'reset');
CREATE INDEX openings ON audit (sequence, session) WHERE action = 'open';
"""

_PINNED = "pinned INTEGER NOT NULL DEFAULT 0"  # the owner's mark; on one line, as the migration adds it
_PINS = """\
CREATE INDEX pinned ON records (key) WHERE pinned;
"""

_TAGGED = """\
CREATE TABLE tagged (                -- live records by tag
    kind     TEXT NOT NULL,
    tag      TEXT NOT NULL,
    key      TEXT NOT NULL,
    saved_at INTEGER NOT NULL,       -- when the record was last saved
    PRIMARY KEY (kind, tag, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX latest ON tagged (tag, saved_at DESC, key) WHERE kind = 'memory';
"""

_IDENTITY = """\
CREATE TABLE compartment (           -- one row: whose data this is
    agent    TEXT NOT NULL,
    level    TEXT NOT NULL,
    id       TEXT NOT NULL,          -- which one it is, of those that ever stood there: the audit is bound to it
    analysis INTEGER NOT NULL        -- version of the text analysis that the index was made with
) STRICT;
"""

COMPARTMENT = f"""
{_IDENTITY}
CREATE TABLE records (               -- the newest version under each key, live or deleted
    id            INTEGER PRIMARY KEY,
    kind          TEXT NOT NULL,
    key           TEXT NOT NULL,
    level         TEXT NOT NULL,     -- a row with another level than the file's is not read
    version       INTEGER NOT NULL,
    content       TEXT NOT NULL,
    tags          TEXT NOT NULL,     -- a JSON list
    origin        TEXT NOT NULL,
    nonce         TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    deleted_at    INTEGER,
    key_terms     INTEGER NOT NULL,  -- lengths in the index
    tags_terms    INTEGER NOT NULL,
    content_terms INTEGER NOT NULL, {_PINNED},
    UNIQUE (kind, key)
) STRICT;

CREATE INDEX live ON records (kind, key) WHERE deleted_at IS NULL;
{_PINS}

CREATE TABLE versions (              -- what the newest version replaced
    kind       TEXT NOT NULL,
    key        TEXT NOT NULL,
    version    INTEGER NOT NULL,
    level      TEXT NOT NULL,
    content    TEXT NOT NULL,
    tags       TEXT NOT NULL,
    origin     TEXT NOT NULL,
    nonce      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    PRIMARY KEY (kind, key, version)
) STRICT;

{_TAGGED}
CREATE VIRTUAL TABLE terms USING fts5 (  -- live memories; the terms are made by the text analysis
    key, tags, content, content = '', contentless_delete = 1, tokenize = 'ascii'
);

{_VOCABULARY}
CREATE TABLE statistics (            -- one row: all live memories
    documents     INTEGER NOT NULL,
    key_terms     INTEGER NOT NULL,
    tags_terms    INTEGER NOT NULL,
    content_terms INTEGER NOT NULL
) STRICT;
INSERT INTO statistics VALUES (0, 0, 0, 0);

CREATE TABLE audit (                 -- the chain: each hash covers its row and the hash before
    sequence   INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    session    TEXT NOT NULL,
    action     TEXT NOT NULL,
    detail     TEXT NOT NULL,
    commitment TEXT NOT NULL,
    previous_hash   TEXT NOT NULL,
    hash       TEXT NOT NULL
) STRICT;

{_STANDINGS}
INSERT INTO compartment VALUES (?, ?, ?, ?);
PRAGMA user_version = {COMPARTMENT_VERSION};
"""

_SESSIONS = """\
CREATE TABLE sessions (              -- the reference monitor's state: no content, no times
    id      TEXT PRIMARY KEY,
    agent   TEXT NOT NULL,
    name    TEXT NOT NULL,
    taint   TEXT NOT NULL,
    ceiling TEXT NOT NULL,
    parent  TEXT,
    ended   INTEGER NOT NULL,
    life    INTEGER NOT NULL,        -- of its agent, in which it was opened
    UNIQUE (agent, name)
) STRICT, WITHOUT ROWID;
"""
_AGENTS = """\
CREATE TABLE lives (                 -- agents that were erased
    agent TEXT PRIMARY KEY,
    life  INTEGER NOT NULL           -- how often; what was opened in an earlier one has ended
) STRICT, WITHOUT ROWID;

CREATE TABLE compartments (          -- which compartment belongs where
    agent TEXT NOT NULL,
    level TEXT NOT NULL,
    id    TEXT NOT NULL,
    PRIMARY KEY (agent, level)
) STRICT, WITHOUT ROWID;
"""

_RENEWALS = """\
CREATE TABLE renewals (              -- names that a later session may have, which its predecessor no longer has
    agent  TEXT NOT NULL,
    name   TEXT NOT NULL,
    number INTEGER NOT NULL,         -- which of all renewals was the last of this name
    PRIMARY KEY (agent, name)
) STRICT, WITHOUT ROWID;
"""

CONTROL = f"""
{_SESSIONS}
{_AGENTS}
{_RENEWALS}
PRAGMA user_version = {CONTROL_VERSION};
"""

MIGRATIONS = {
    # Document frequencies were stored; now they are counted, and the words are kept for spelling.
    1: f"""
DROP TABLE frequencies;
{_VOCABULARY}
UPDATE compartment SET analysis = 0;
""",
    # Two indexes find what the chain says of one session's levels without reading all of it.
    # Compartments had no ids, so one file could be put in another's place.
    2: f"""
CREATE TEMP TABLE before AS
SELECT agent, level, '{UNCONFIRMED}' || lower(hex(randomblob(16))), analysis FROM compartment;
DROP TABLE compartment;
{_IDENTITY}
INSERT INTO compartment SELECT * FROM before;
DROP TABLE before;
{_STANDINGS}""",
    # The tags of memories were compared as they are written; now they are compared folded.
    3: """
DELETE FROM tags WHERE kind = 'memory';
INSERT INTO tags SELECT DISTINCT records.kind, fold(json_each.value), records.key FROM records, json_each(records.tags)
WHERE records.kind = 'memory' AND deleted_at IS NULL AND level IN (SELECT level FROM compartment);
""",
    # Memories could not be pinned.
    4: f"""
ALTER TABLE records ADD COLUMN {_PINNED};
{_PINS}""",
    # Memories were listed by tag in key order alone. The new names make every write fail of an older program that still
    # has the file open: each is entered in the audit, after a look at the last entry.
    5: f"""
DROP INDEX IF EXISTS latest;
{_TAGGED}
INSERT INTO tagged SELECT kind, tag, key, coalesce(updated_at, 0) FROM tags LEFT JOIN records USING (kind, key);
DROP TABLE tags;
ALTER TABLE audit RENAME COLUMN previous TO previous_hash;
""",
}
"""For each earlier version of a compartment's schema, the upgrade to the next. An index of analysis 0 is rebuilt."""

CONTROL_MIGRATIONS = {
    # An agent had only one life, and no compartment had an id.
    1: f"""
CREATE TEMP TABLE before AS SELECT id, agent, name, taint, ceiling, parent, ended, 0 FROM sessions;
DROP TABLE sessions;
{_SESSIONS}
INSERT INTO sessions SELECT * FROM before;
DROP TABLE before;
{_AGENTS}
""",
    # No name was renewed.
    2: _RENEWALS,
}
"""The same for the control store's schema."""
