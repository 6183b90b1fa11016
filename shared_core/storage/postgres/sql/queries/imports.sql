-- Items that were imported, and those of them that were deleted here since.

-- name: mark_imported
-- A deletion stays noted for good: what the source wrote before it is not news.
INSERT INTO import_marks (tenant_id, address_hash, updated_at)
SELECT g.tenant_id, g.address_hash, max(g.updated_at)
FROM unnest(%(tenants)b::text[], %(hashes)b::bytea[], %(updated_at)b::timestamptz[])
     AS g(tenant_id, address_hash, updated_at)
GROUP BY g.tenant_id, g.address_hash ORDER BY g.tenant_id, g.address_hash
ON CONFLICT (tenant_id, address_hash) DO UPDATE SET updated_at = excluded.updated_at

-- name: import_marks
-- The marks of some items, and those for all items of their tenants.
SELECT i.tenant_id, i.address_hash, i.updated_at, i.deleted_at
FROM (SELECT unnest(%(tenants)b::text[]), unnest(%(hashes)b::bytea[])
      UNION SELECT unnest(%(tenants)b::text[]), ''::bytea) AS g(tenant_id, address_hash)
JOIN import_marks i USING (tenant_id, address_hash)

-- name: mark_deleted
UPDATE import_marks i SET deleted_at = %(now)s
FROM unnest(%(tenants)b::text[], %(hashes)b::bytea[]) AS g(tenant_id, address_hash)
WHERE i.tenant_id = g.tenant_id AND i.address_hash = g.address_hash

-- name: mark_all_deleted
-- One mark for everything that a tenant imported.
INSERT INTO import_marks (tenant_id, address_hash, updated_at, deleted_at)
SELECT %(tenant)s, ''::bytea, %(now)s, %(now)s
WHERE EXISTS (SELECT FROM import_marks WHERE tenant_id = %(tenant)s)
ON CONFLICT (tenant_id, address_hash) DO UPDATE
SET updated_at = excluded.updated_at, deleted_at = excluded.deleted_at

-- name: drop_import_marks
DELETE FROM import_marks WHERE tenant_id = %(tenant)s AND address_hash <> ''
