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

_RECORDS = """
CREATE INDEX runs_by_settling ON runs (settled_at) WHERE settled_at IS NOT NULL;
CREATE TABLE audit (
  seq INTEGER PRIMARY KEY,
  run_id TEXT,
  kind TEXT NOT NULL,
  hash TEXT NOT NULL,
  record TEXT NOT NULL
) STRICT;
CREATE INDEX audit_by_run ON audit (run_id) WHERE run_id IS NOT NULL;
CREATE TABLE audit_head (
  only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
  statement TEXT NOT NULL,
  signature TEXT NOT NULL
) STRICT;
CREATE TABLE workspaces (
  workspace_id TEXT PRIMARY KEY,
  name TEXT UNIQUE,
  principal TEXT NOT NULL,
  created_at TEXT NOT NULL,
  image TEXT,
  head_snapshot TEXT,
  detail TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE TABLE snapshots (
  snapshot_id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (workspace_id) ON DELETE CASCADE,
  parent TEXT REFERENCES snapshots (snapshot_id),
  run_id TEXT,
  state TEXT NOT NULL CHECK (state IN ('provisional', 'committed', 'durable')),
  created_at TEXT NOT NULL,
  detail TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX snapshots_by_workspace ON snapshots (workspace_id, created_at);
CREATE INDEX snapshots_by_parent ON snapshots (parent);
CREATE TABLE consents (
  consent_id TEXT PRIMARY KEY,
  principal TEXT NOT NULL,
  workspace TEXT,
  policy_digest TEXT NOT NULL,
  given_at TEXT NOT NULL,
  revoked_at TEXT,
  detail TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX consents_by_principal ON consents (principal, workspace);
CREATE TABLE grants (
  grant_id TEXT PRIMARY KEY,
  principal TEXT NOT NULL,
  conversation TEXT,
  workspace TEXT,
  request_digest TEXT,
  given_by TEXT NOT NULL,
  given_at TEXT NOT NULL,
  expires_at TEXT,
  revoked_at TEXT,
  uses_left INTEGER CHECK (uses_left >= 0),
  detail TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX grants_by_principal ON grants (principal, conversation);
CREATE TABLE approvals (
  approval_id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
  request_digest TEXT NOT NULL,
  asked_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  answer TEXT CHECK (answer IN ('approved', 'denied', 'expired', 'cancelled')),
  answered_by TEXT,
  answered_at TEXT,
  detail TEXT NOT NULL DEFAULT '{}',
  CHECK ((answer IS NULL) = (answered_at IS NULL))
) STRICT;
CREATE INDEX approvals_by_run ON approvals (run_id);
CREATE INDEX approvals_pending ON approvals (asked_at) WHERE answer IS NULL;
CREATE TABLE quotas (
  quota_id TEXT PRIMARY KEY,
  subject TEXT NOT NULL,
  resource TEXT NOT NULL,
  amount INTEGER NOT NULL,
  run_id TEXT,
  owner TEXT,
  at TEXT NOT NULL
) STRICT;
CREATE INDEX quotas_by_subject ON quotas (subject, resource, at);
CREATE INDEX quotas_by_run ON quotas (run_id) WHERE run_id IS NOT NULL;
CREATE TABLE artifacts (
  artifact_id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
  bytes INTEGER NOT NULL CHECK (bytes >= 0),
  sha256 TEXT NOT NULL,
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL
) STRICT;
CREATE INDEX artifacts_by_run ON artifacts (run_id);
CREATE INDEX artifacts_by_expiry ON artifacts (expires_at);
CREATE TABLE event_cursors (
  run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
  consumer TEXT NOT NULL,
  seq INTEGER NOT NULL CHECK (seq >= 0),
  PRIMARY KEY (run_id, consumer)
) STRICT, WITHOUT ROWID;
"""

_ARTIFACTS: Final = """
ALTER TABLE artifacts ADD COLUMN workspace TEXT;
ALTER TABLE artifacts ADD COLUMN principal TEXT NOT NULL DEFAULT '';
ALTER TABLE artifacts ADD COLUMN stored_bytes INTEGER NOT NULL DEFAULT 0 CHECK (stored_bytes >= 0);
ALTER TABLE artifacts ADD COLUMN gone TEXT;
ALTER TABLE artifacts ADD COLUMN gone_at TEXT;
CREATE INDEX artifacts_present ON artifacts (created_at) WHERE gone IS NULL;
"""

_WORKSPACES: Final = """
DROP TABLE snapshots;
DROP TABLE workspaces;
CREATE TABLE stores (
  store_id TEXT PRIMARY KEY,
  engine_id TEXT NOT NULL UNIQUE,
  volume TEXT NOT NULL,
  base TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT;
CREATE TABLE layers (
  layer_id TEXT PRIMARY KEY,
  store_id TEXT NOT NULL REFERENCES stores (store_id),
  state TEXT NOT NULL CHECK (state IN ('open', 'sealed', 'doomed')),
  maker TEXT,
  entries INTEGER NOT NULL DEFAULT 0 CHECK (entries >= 0)
) STRICT;
CREATE INDEX layers_doomed ON layers (layer_id) WHERE state = 'doomed';
CREATE TABLE workspaces (
  workspace_id TEXT PRIMARY KEY,
  name TEXT UNIQUE,
  store_id TEXT NOT NULL REFERENCES stores (store_id),
  uid INTEGER NOT NULL CHECK (uid >= 0),
  mount_at TEXT NOT NULL,
  head TEXT NOT NULL,
  owner TEXT,
  created_at TEXT NOT NULL,
  CHECK (name IS NOT NULL OR owner IS NOT NULL)
) STRICT;
CREATE INDEX workspaces_by_uid ON workspaces (uid);
CREATE TABLE snapshots (
  seq INTEGER PRIMARY KEY,
  snapshot_id TEXT NOT NULL UNIQUE,
  workspace_id TEXT NOT NULL REFERENCES workspaces (workspace_id) ON DELETE CASCADE,
  parent TEXT,
  run_id TEXT,
  cause TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('committed', 'durable')),
  created_at TEXT NOT NULL,
  effects TEXT
) STRICT;
CREATE INDEX snapshots_by_workspace ON snapshots (workspace_id, seq);
CREATE INDEX snapshots_committed ON snapshots (seq) WHERE state = 'committed';
CREATE TABLE snapshot_layers (
  snapshot_id TEXT NOT NULL REFERENCES snapshots (snapshot_id) ON DELETE CASCADE,
  position INTEGER NOT NULL CHECK (position >= 0),
  layer_id TEXT NOT NULL REFERENCES layers (layer_id),
  PRIMARY KEY (snapshot_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX snapshot_layers_by_layer ON snapshot_layers (layer_id);
CREATE TABLE writers (
  ticket INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace_id TEXT NOT NULL,
  owner TEXT NOT NULL,
  asked_at TEXT NOT NULL
) STRICT;
CREATE INDEX writers_by_workspace ON writers (workspace_id, ticket);
CREATE TABLE mounts (
  volume TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL,
  snapshot_id TEXT NOT NULL,
  upper TEXT NOT NULL REFERENCES layers (layer_id),
  run_id TEXT,
  owner TEXT NOT NULL,
  mounted_at TEXT NOT NULL,
  sealed INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX mounts_by_workspace ON mounts (workspace_id);
CREATE TABLE mount_layers (
  volume TEXT NOT NULL REFERENCES mounts (volume) ON DELETE CASCADE,
  position INTEGER NOT NULL CHECK (position >= 0),
  layer_id TEXT NOT NULL REFERENCES layers (layer_id),
  PRIMARY KEY (volume, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX mount_layers_by_layer ON mount_layers (layer_id);
"""

_APPROVALS: Final = """
ALTER TABLE approvals ADD COLUMN deadline_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approvals ADD COLUMN reason TEXT;
ALTER TABLE approvals ADD COLUMN redeemed_at TEXT;
CREATE INDEX grants_by_workspace ON grants (principal, workspace) WHERE revoked_at IS NULL;
CREATE TABLE workspace_access (
  workspace TEXT PRIMARY KEY,
  allowed INTEGER NOT NULL CHECK (allowed IN (0, 1)),
  changed_by TEXT NOT NULL,
  changed_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""

_WORKSPACE_POLICIES: Final = """
CREATE TABLE workspace_policies (
  workspace TEXT PRIMARY KEY,
  document TEXT NOT NULL,
  attached_by TEXT NOT NULL,
  attached_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""

_QUOTAS: Final = """
DROP TABLE quotas;
CREATE TABLE quota_tickets (
  ticket INTEGER PRIMARY KEY AUTOINCREMENT,
  round INTEGER NOT NULL,
  run_id TEXT NOT NULL UNIQUE,
  principal TEXT NOT NULL,
  conversation TEXT,
  workspace TEXT,
  amounts TEXT NOT NULL,
  bounds TEXT NOT NULL,
  held INTEGER NOT NULL DEFAULT 0 CHECK (held IN (0, 1)),
  owner TEXT NOT NULL
) STRICT;
CREATE TABLE quota_round (
  only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
  round INTEGER NOT NULL
) STRICT;
INSERT INTO quota_round (only_one, round) VALUES (1, 0);
CREATE TABLE quota_spent (
  seq INTEGER PRIMARY KEY,
  principal TEXT NOT NULL,
  conversation TEXT,
  workspace TEXT,
  milliseconds INTEGER NOT NULL CHECK (milliseconds >= 0),
  at REAL NOT NULL
) STRICT;
CREATE INDEX quota_spent_by_time ON quota_spent (at);
"""

_SLOTS: Final = """
ALTER TABLE mounts ADD COLUMN slot TEXT;
"""

MIGRATIONS: Final[tuple[str, ...]] = (
    _RUNS,
    _RECORDS,
    _ARTIFACTS,
    _WORKSPACES,
    _APPROVALS,
    _WORKSPACE_POLICIES,
    _QUOTAS,
    _SLOTS,
)
