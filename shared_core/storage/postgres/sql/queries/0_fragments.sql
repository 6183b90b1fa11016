-- Pieces that several statements share; a statement names one as {piece}.

-- fragment: item_columns
m.tenant_id || substr(m.namespace, 2), m.key, m.value, m.created_at, m.updated_at, m.ttl_s

-- fragment: memory_columns
{own_columns},
{source_ids}

-- fragment: own_columns
m.memory_id, m.tenant_id || substr(m.namespace, 2), m.key, m.kind, m.text, m.value::text,
m.author, m.importance, m.occurred_at, m.created_at, m.updated_at, m.expires_at,
m.superseded_at, m.thread_id

-- fragment: source_ids
-- The ids of the turns of a memory, each once, whatever its thread.
(SELECT array_agg(DISTINCT x.event_id ORDER BY x.event_id) FROM memory_sources x
 WHERE x.tenant_id = {its_tenant} AND x.memory_id = m.memory_id)

-- fragment: living
m.superseded_at IS NULL AND m.demoted_at IS NULL
AND (m.expires_at IS NULL OR m.expires_at > %(now)s)

-- fragment: still_read
-- Items are read after they expired, until they are deleted, if the caller says so; shared memories
-- are not.
(m.expires_at IS NULL OR m.expires_at > %(now)s
 OR (%(with_expired)s AND m.kind = 'item' AND NOT m.namespace ^@ '/memories/'))

-- fragment: listed
m.superseded_at IS NULL AND m.demoted_at IS NULL AND {still_read}

-- fragment: one_tenant
m.tenant_id = %(tenant)s

-- fragment: its_tenant
-- The tenant of "m" at a level within: its parameter, which Citus wants at every level.
%(tenant)s

-- fragment: tenant_range
m.tenant_id >= %(tenant)s AND m.tenant_id < %(tenant_end)s

-- fragment: below
m.namespace >= %(path)s AND m.namespace < %(path_end)s

-- fragment: addresses
-- Addresses of one tenant.
unnest(%(namespaces)b::text[], %(keys)b::text[]) AS g(namespace, key)

-- fragment: addressed
-- OFFSET 0 keeps this a look-up by key for each address: with the tenant as a value the planner would
-- read all of the tenant for each of them, where it expects one row of it.
{addresses}
CROSS JOIN LATERAL (SELECT * FROM memories m
                    WHERE m.tenant_id = %(tenant)s AND m.namespace = g.namespace AND m.key = g.key
                    OFFSET 0) m

-- fragment: soon
-- Now, with an hour of tolerance: the clock of a caller may be ahead of ours.
%(now)s::timestamptz + interval '1 hour'

-- fragment: begun
-- Excludes facts that begin later, and facts whose planned end has come. Inside, "m" is the fact, so
-- that {tenant_scope} fits.
m.memory_id NOT IN (SELECT m.memory_id FROM facts m
                    WHERE {tenant_scope} AND m.valid_from > {soon}
                    UNION ALL
                    SELECT m.memory_id FROM facts m
                    WHERE {tenant_scope} AND m.superseded_at < m.valid_until
                      AND m.valid_until <= %(now)s)
