CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('seq', 0);

CREATE TABLE tracks(
  id INTEGER PRIMARY KEY,
  place BLOB NOT NULL,
  keyword TEXT NOT NULL,
  owner TEXT NOT NULL,
  tenant TEXT NOT NULL,
  scope TEXT NOT NULL,
  subject TEXT NOT NULL,
  individual TEXT NOT NULL,
  fact_type TEXT,
  shapes TEXT NOT NULL,
  UNIQUE (place, keyword, owner)
) STRICT;

CREATE TABLE assertions(
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  record_id TEXT NOT NULL,
  track INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  slot BLOB NOT NULL,
  said_at INTEGER NOT NULL,
  fingerprint BLOB NOT NULL,
  recorded_at TEXT NOT NULL,
  checksum INTEGER NOT NULL,
  joined INTEGER,
  text TEXT NOT NULL,
  doc TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX assertions_fingerprint ON assertions(track, said_at, fingerprint);
CREATE INDEX assertions_slot ON assertions(track, slot);
CREATE INDEX assertions_record ON assertions(record_id);
CREATE INDEX assertions_tenant ON assertions(tenant);

CREATE TABLE state_changes(
  seq INTEGER PRIMARY KEY,
  assertion INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  state TEXT NOT NULL,
  recorded_at TEXT NOT NULL,
  reason TEXT
) STRICT;
CREATE INDEX state_changes_assertion ON state_changes(assertion);
CREATE INDEX state_changes_tenant ON state_changes(tenant);

CREATE TABLE tombstones(
  seq INTEGER PRIMARY KEY,
  assertion_id TEXT NOT NULL,
  tenant TEXT NOT NULL
) STRICT;
CREATE INDEX tombstones_tenant ON tombstones(tenant);

CREATE VIRTUAL TABLE texts USING fts5(
  text, content='assertions', content_rowid='seq', columnsize=0, tokenize='unicode61 remove_diacritics 2'
);
INSERT INTO texts(texts, rank) VALUES ('secure-delete', 1);
