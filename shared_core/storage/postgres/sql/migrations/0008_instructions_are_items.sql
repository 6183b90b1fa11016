-- The newest version of an instruction becomes an item of (app, user, "instructions"), and what was
-- put there as an item becomes a version. Row security binds the owner as well.
SELECT set_config('hippocampus.scope', '/', true);

-- Where both are, the item counts, and what the instruction said is the version before. An item that
-- will expire stays what it is.
INSERT INTO instructions (tenant_id, instruction_key, version, content, metadata, created_at)
SELECT m.tenant_id, m.key, coalesce(n.version, 0) + 1, m.text, m.value, m.updated_at
FROM memories m
LEFT JOIN LATERAL (
    SELECT version, metadata FROM instructions i
    WHERE i.tenant_id = m.tenant_id AND i.instruction_key = m.key
    ORDER BY version DESC LIMIT 1
) n ON true
WHERE m.namespace = '/instructions/' AND m.superseded_at IS NULL AND m.expires_at IS NULL
  AND n.metadata::text IS DISTINCT FROM m.value::text;

-- Words and vectors are made by the library, so a search finds these from their next put on.
INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms, term_count,
                      occurred_at, created_at, updated_at)
SELECT tenant_id, gen_random_uuid(), '/instructions/', instruction_key, 'item', content, metadata,
       '', 0, created_at, first, created_at
FROM (
    SELECT DISTINCT ON (tenant_id, instruction_key) *,
           min(created_at) OVER (PARTITION BY tenant_id, instruction_key) AS first
    FROM instructions
    ORDER BY tenant_id, instruction_key, version DESC
) newest
ON CONFLICT DO NOTHING;
