-- Procedural memory: every version of an instruction is kept, the highest counts.

-- name: add_instruction
-- Adds a version of an instruction, unless the newest says the same; the tenant is locked. Returns
-- the newest.
WITH newest AS (
    SELECT version, metadata FROM instructions
    WHERE tenant_id = %(tenant)s AND instruction_key = %(key)s
    ORDER BY version DESC LIMIT 1
)
INSERT INTO instructions (tenant_id, instruction_key, version, content, metadata, created_at)
SELECT %(tenant)s, %(key)s, coalesce((SELECT version FROM newest), 0) + 1, %(content)s,
       %(value)s::jsonb, %(now)s
WHERE NOT EXISTS (SELECT FROM newest WHERE metadata = %(value)s::jsonb)

-- name: restore_instruction
-- Adds a version that says what an earlier one said, unless the newest does; the tenant is locked.
INSERT INTO instructions (tenant_id, instruction_key, version, content, metadata, created_at)
SELECT o.tenant_id, o.instruction_key, n.version + 1, o.content, o.metadata, %(now)s
FROM instructions o, LATERAL (
    SELECT version, metadata FROM instructions
    WHERE tenant_id = %(tenant)s AND instruction_key = %(key)s
    ORDER BY version DESC LIMIT 1
) n
WHERE o.tenant_id = %(tenant)s AND o.instruction_key = %(key)s AND o.version = %(version)s
  AND n.metadata IS DISTINCT FROM o.metadata

-- name: instruction_versions
-- Versions of an instruction, the newest first, with the moment of the first.
SELECT instruction_key, version, metadata, created_at,
       (SELECT min(created_at) FROM instructions
        WHERE tenant_id = %(tenant)s AND instruction_key = %(key)s)
FROM instructions
WHERE tenant_id = %(tenant)s AND instruction_key = %(key)s
ORDER BY version DESC LIMIT %(limit)s

-- name: newest_instructions
-- The newest version of every instruction, the last that changed first.
SELECT * FROM (
    SELECT DISTINCT ON (instruction_key) instruction_key, version, metadata, created_at,
           min(created_at) OVER (PARTITION BY instruction_key)
    FROM instructions WHERE tenant_id = %(tenant)s
    ORDER BY instruction_key, version DESC
) newest
ORDER BY created_at DESC, instruction_key
LIMIT %(limit)s OFFSET %(offset)s

-- name: drop_instruction
DELETE FROM instructions WHERE tenant_id = %(tenant)s AND instruction_key = %(key)s RETURNING 1
