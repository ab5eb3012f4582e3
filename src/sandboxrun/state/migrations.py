"""The schema, as the steps that lead to it.

Forward only. A step that was released is never edited: a new one is added. The version of a
database is the number of steps applied to it (``PRAGMA user_version``).
"""

from __future__ import annotations

from typing import Final

APPLICATION_ID: Final = 0x53425831
"""``PRAGMA application_id`` of our databases: "SBX1"."""

_RUNS = """
CREATE TABLE runs (
  seq INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL UNIQUE,
  workspace TEXT,
  principal TEXT NOT NULL,
  conversation TEXT,
  owner TEXT NOT NULL,
  started_at TEXT NOT NULL,
  status TEXT,
  settled_at TEXT,
  request TEXT NOT NULL,
  outcome TEXT,
  CHECK ((status IS NULL) = (settled_at IS NULL) AND (status IS NULL) = (outcome IS NULL))
) STRICT;
CREATE INDEX runs_by_workspace ON runs (workspace, seq);
CREATE INDEX runs_by_status ON runs (status, seq);
CREATE INDEX runs_unsettled ON runs (seq) WHERE status IS NULL;
CREATE TABLE requests (
  seq INTEGER PRIMARY KEY,
  request_id TEXT NOT NULL UNIQUE,
  run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  payload TEXT NOT NULL,
  asked_by TEXT NOT NULL,
  asked_at TEXT NOT NULL,
  answered_at TEXT,
  result TEXT,
  CHECK ((answered_at IS NULL) = (result IS NULL))
) STRICT;
CREATE INDEX requests_by_run ON requests (run_id);
CREATE INDEX requests_pending ON requests (seq) WHERE answered_at IS NULL;
CREATE TABLE leases (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  token TEXT NOT NULL,
  acquired_at TEXT NOT NULL,
  renewed_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""

MIGRATIONS: Final[tuple[str, ...]] = (_RUNS,)
