"""Tables, and their migrations.

The tenant comes first in every primary and unique key, and in every index; no key refers to another tenant's rows. So
``create_distributed_table(table, 'tenant', colocate_with => 'counters')`` makes a Citus cluster of each, and row-level
security by tenant is a second wall behind the conditions of the statements. Names are bytes, because a text refuses
U+0000; the empty name stands for None, since no legal name is blank.

A counter row per tenant is locked until the commit. It holds the tenant's newest sequence number, which therefore
becomes visible with everything below it; a reader that polls it misses nothing.
"""

from __future__ import annotations

from typing import Final

TABLES: Final = (
    "counters",
    "tracks",
    "heads",
    "assertions",
    "state_changes",
    "tombstones",
    "shared_outlines",
    "outlines",
    "vectors",
    "accesses",
    "erasures",
)
"""Tables with rows of tenants; ``meta`` and ``versions`` have none."""

_FIRST: Final = """
CREATE TABLE {schema}.meta(
  key text COLLATE "C" PRIMARY KEY,
  value text NOT NULL
);

CREATE TABLE {schema}.counters(
  tenant bytea PRIMARY KEY,
  seq bigint NOT NULL,
  sum bigint NOT NULL,
  recorded_at bigint NOT NULL,
  copying boolean NOT NULL DEFAULT false
) WITH (fillfactor = 20);

CREATE TABLE {schema}.tracks(
  tenant bytea,
  place bytea,
  keyword bytea,
  owner bytea,
  id bigint NOT NULL,
  fact_type text,
  shapes text NOT NULL,
  PRIMARY KEY (tenant, place, keyword, owner),
  UNIQUE (tenant, id)
);

CREATE TABLE {schema}.heads(
  tenant bytea,
  id bigint,
  track bigint NOT NULL,
  digest bytea NOT NULL,
  doc text NOT NULL,
  PRIMARY KEY (tenant, id),
  UNIQUE (tenant, digest)
);

CREATE TABLE {schema}.assertions(
  tenant bytea,
  seq bigint,
  track bigint NOT NULL,
  head bigint NOT NULL,
  said_at bigint NOT NULL,
  recorded_at bigint NOT NULL,
  checksum bigint NOT NULL,
  joined bigint,
  id bytea NOT NULL,
  record_id bytea,
  slot bytea NOT NULL,
  fingerprint bytea NOT NULL,
  doc text NOT NULL,
  PRIMARY KEY (tenant, seq),
  UNIQUE (tenant, said_at, fingerprint)
);
CREATE UNIQUE INDEX assertions_foreign ON {schema}.assertions(tenant, id) WHERE octet_length(id) <> 10;
CREATE INDEX assertions_slot ON {schema}.assertions(tenant, track, substring(slot FOR 7), seq);
CREATE INDEX assertions_record ON {schema}.assertions(tenant, record_id, seq) WHERE record_id IS NOT NULL;

CREATE TABLE {schema}.state_changes(
  tenant bytea,
  seq bigint,
  assertion bigint NOT NULL,
  recorded_at bigint NOT NULL,
  checksum bigint NOT NULL,
  state text NOT NULL,
  reason bytea,
  actor bytea,
  PRIMARY KEY (tenant, seq)
);
CREATE INDEX state_changes_assertion ON {schema}.state_changes(tenant, assertion, seq);

CREATE TABLE {schema}.tombstones(
  tenant bytea,
  seq bigint,
  checksum bigint NOT NULL,
  assertion_id bytea NOT NULL,
  PRIMARY KEY (tenant, seq)
);

CREATE TABLE {schema}.shared_outlines(
  tenant bytea,
  digest bytea,
  body bytea NOT NULL,
  PRIMARY KEY (tenant, digest)
);

CREATE TABLE {schema}.outlines(
  tenant bytea,
  seq bigint,
  version bigint NOT NULL,
  checksum bigint NOT NULL,
  shared bytea NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (tenant, seq)
);

CREATE TABLE {schema}.vectors(
  tenant bytea,
  seq bigint,
  binding bigint NOT NULL,
  checksum bigint NOT NULL,
  embedding bytea NOT NULL,
  PRIMARY KEY (tenant, seq)
);
ALTER TABLE {schema}.vectors ALTER embedding SET STORAGE EXTERNAL;

CREATE TABLE {schema}.accesses(
  tenant bytea,
  record_id bytea,
  count bigint NOT NULL,
  last bigint NOT NULL,
  PRIMARY KEY (tenant, record_id)
) WITH (fillfactor = 70);

CREATE TABLE {schema}.erasures(
  tenant bytea,
  seq bigint,
  by_transaction xid8 NOT NULL,
  files bigint[] NOT NULL,
  rewritten pg_lsn,
  until pg_lsn,
  PRIMARY KEY (tenant, seq)
);
"""
"""Counters and accesses are updated often: room for the next version in the same page spares their indexes. Vectors are
not compressed, because random bytes do not shrink. Seven bytes of a slot, which is a digest, are enough to find it, and
spare a third of the index."""

_WALL: Final = """
ALTER TABLE {schema}.{table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {schema}.{table} FORCE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON {schema}.{table}
  USING (tenant = nullif(current_setting('factmem.tenant', true), '')::bytea);
"""

_LISTING: Final = """
CREATE POLICY of_all ON {schema}.counters
  FOR SELECT USING (current_setting('factmem.tenants', true) = 'all');
"""
"""The check of a store lists its tenants, and sees nothing else of them."""

MIGRATIONS: Final = (_FIRST + "".join(_WALL.replace("{table}", table) for table in TABLES) + _LISTING,)
"""Scripts from each version of the format to the next; never edit one that was released."""
