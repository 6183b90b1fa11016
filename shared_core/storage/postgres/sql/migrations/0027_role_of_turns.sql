-- Who said a turn, beside the turn's memory: recall weighs it for every candidate.
-- The owner is under row security too: without a scope there would be nothing to update.
SELECT set_config('hippocampus.scope', '/', true);
ALTER TABLE memories ADD COLUMN role text;
UPDATE memories m SET role = e.role
FROM memory_sources s JOIN events e USING (tenant_id, thread_id, event_id)
WHERE m.kind = 'episodic' AND s.tenant_id = m.tenant_id AND s.memory_id = m.memory_id;
