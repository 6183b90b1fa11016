-- What was remembered in a stretch of time is one range, in order, whatever else its user remembers.
CREATE INDEX memories_in_time ON memories (tenant_id, occurred_at, memory_id);
