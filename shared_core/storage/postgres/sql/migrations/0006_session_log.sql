-- Threads become session logs too: one row of events is a framework's event and its memory.
-- Row security binds the owner as well, so what changes rows names the scope of all.
SELECT set_config('hippocampus.scope', '/', true);

-- last_memory_seq numbers what is remembered, in the order it was; consolidated_seq is a mark on
-- that line. The session columns are null for a thread that only memory knows. version counts the
-- events of the session log: a writer that has not seen them all is told so.
ALTER TABLE threads
    ADD COLUMN last_memory_seq     bigint NOT NULL DEFAULT 0,
    ADD COLUMN session_started_at  timestamptz,
    ADD COLUMN session_updated_at  timestamptz,
    ADD COLUMN last_event_id       text COLLATE "C";
UPDATE threads SET last_memory_seq = last_seq;

-- memory_seq is null for what is logged and not remembered. payload is the whole event of the
-- framework, as it was given, for an event of a session log: never read by SQL, so not parsed.
ALTER TABLE events
    ADD COLUMN memory_seq  bigint,
    ADD COLUMN importance  real NOT NULL DEFAULT 5 CHECK (importance BETWEEN 1 AND 10),
    ADD COLUMN expires_at  timestamptz,
    ADD COLUMN payload     json;
UPDATE events SET memory_seq = seq;

-- What all sessions of an application share, or all sessions of one of its users; tenant_id is the
-- path of either. What works in a scope reads and writes the state of its application as well.
CREATE TABLE shared_state (
    tenant_id   text COLLATE "C" NOT NULL,
    state       jsonb NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id)
);
SELECT protect('shared_state');
CREATE POLICY above_scope ON shared_state
    USING (tenant_id = (SELECT substring(scope FROM '^/[^/]+/')
                        FROM current_setting('hippocampus.scope', true) AS scope));
