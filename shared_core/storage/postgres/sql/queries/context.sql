-- What a context shows besides the hits of recall.

-- name: thread_summary
-- The summary of a thread, now or at a moment, by the small index of summaries.
SELECT {memory_columns} FROM memories m
WHERE {one_tenant} AND m.thread_id = %(thread_id)s AND m.kind = 'summary' AND {below} AND {current}
ORDER BY m.occurred_at + interval '0' DESC, m.memory_id DESC
LIMIT 1
