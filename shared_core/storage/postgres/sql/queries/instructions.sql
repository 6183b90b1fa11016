-- Procedural memory. The newest version of an instruction is an item among memories; this table holds
-- all versions, the newest included.

-- name: add_versions
-- Adds items, named by key, as versions of instructions, unless the newest version has the same text
-- (1 is not 1.0). The items are written and the tenants locked.
INSERT INTO instructions (tenant_id, instruction_key, version, content, metadata, created_at)
SELECT m.tenant_id, m.key, coalesce(n.version, 0) + 1, m.text, m.value, m.updated_at
FROM {addressed}
LEFT JOIN LATERAL (
    SELECT version, metadata FROM instructions i
    WHERE i.tenant_id = m.tenant_id AND i.instruction_key = m.key
    ORDER BY version DESC LIMIT 1
) n ON true
WHERE n.metadata::text IS DISTINCT FROM m.value::text

-- name: stamp_versions
-- Gives the newest versions the times of their imported items.
UPDATE instructions i SET created_at = m.updated_at
FROM {addressed}
WHERE i.tenant_id = m.tenant_id AND i.instruction_key = m.key
  AND i.version = (SELECT max(version) FROM instructions n
                   WHERE n.tenant_id = m.tenant_id AND n.instruction_key = m.key)

-- name: drop_versions
-- Deletes all versions of items, named by key.
DELETE FROM instructions i
USING {addresses}
WHERE i.tenant_id = g.tenant_id AND i.instruction_key = g.key
RETURNING 1

-- name: instruction_versions
-- Versions of an instruction, newest first, with the time of the first version.
SELECT instruction_key, version, metadata, created_at,
       (SELECT min(created_at) FROM instructions
        WHERE tenant_id = %(tenant)s AND instruction_key = %(key)s)
FROM instructions
WHERE tenant_id = %(tenant)s AND instruction_key = %(key)s
ORDER BY version DESC LIMIT %(limit)s

-- name: newest_instructions
-- The newest version of every instruction, last changed first.
SELECT * FROM (
    SELECT DISTINCT ON (instruction_key) instruction_key, version, metadata, created_at,
           min(created_at) OVER (PARTITION BY instruction_key)
    FROM instructions WHERE tenant_id = %(tenant)s
    ORDER BY instruction_key, version DESC
) newest
ORDER BY created_at DESC, instruction_key
LIMIT %(limit)s OFFSET %(offset)s
