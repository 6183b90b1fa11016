-- Conversations that are opened and ended by themselves: one at a time for a user, on a thread of its
-- own. ends_at: when it has been idle or has lasted long enough, unless something is said before.
CREATE TABLE conversations (
    tenant_id       text COLLATE "C" NOT NULL,
    thread_id       text COLLATE "C" NOT NULL,
    status          text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'ending', 'ended')),
    event_count     integer NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL,
    last_active_at  timestamptz NOT NULL,
    ends_at         timestamptz NOT NULL,
    ended_at        timestamptz,
    PRIMARY KEY (tenant_id, thread_id)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX conversations_one_active ON conversations (tenant_id) WHERE status = 'active';
-- Read by who ends what nobody has gone on with, across tenants.
CREATE INDEX conversations_ending ON conversations (ends_at) WHERE status = 'active';
SELECT protect('conversations');
