-- An input of a session that is sent again with the id its caller gave it is found in every session,
-- and where it was forgotten.

CREATE INDEX IF NOT EXISTS events_of_id ON events (tenant_id, event_id);
CREATE INDEX IF NOT EXISTS tombstones_of_id ON tombstones (tenant_id, event_id);
