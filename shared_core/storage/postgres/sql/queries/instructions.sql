-- Procedural memory. The newest version of an instruction is an item among memories; this table holds
-- all versions, the newest included.

-- name: add_versions
-- Adds items, named by key, as versions of instructions, unless the newest version has the same text
-- (1 is not 1.0). The items are written and the tenant locked.
INSERT INTO instructions (tenant_id, instruction_key, version, content, metadata, created_at)
SELECT %(tenant)s, m.key, coalesce(n.version, 0) + 1, m.text, m.value, m.updated_at
FROM {addressed}
LEFT JOIN LATERAL (
    SELECT version, metadata FROM instructions i
    WHERE i.tenant_id = %(tenant)s AND i.instruction_key = m.key
    ORDER BY version DESC LIMIT 1
) n ON true
WHERE n.metadata::text IS DISTINCT FROM m.value::text
RETURNING 1
