-- What was imported, so that a later import does not bring back what was deleted here since.

-- address_hash: SHA-256 of the item's namespace and key, or empty for all of the tenant.
-- updated_at: as of its source. deleted_at: when it was deleted here, the last time.
CREATE TABLE import_marks (
    tenant_id     text COLLATE "C" NOT NULL,
    address_hash  bytea NOT NULL,
    updated_at    timestamptz NOT NULL,
    deleted_at    timestamptz,
    PRIMARY KEY (tenant_id, address_hash)
);
SELECT protect('import_marks');
