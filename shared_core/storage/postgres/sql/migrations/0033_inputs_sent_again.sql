-- An input of a session that is sent again with the id its caller gave it is found in every session,
-- and where it was forgotten.

CREATE INDEX events_of_conversations ON events (tenant_id, event_id)
    WHERE left(thread_id, 13) = 'conversation:';
CREATE INDEX tombstones_of_conversations ON tombstones (tenant_id, event_id)
    WHERE left(thread_id, 13) = 'conversation:';
