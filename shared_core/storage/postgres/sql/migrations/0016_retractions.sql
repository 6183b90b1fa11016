-- What was retracted, known or not: a turn that is read later and was said before ends with it.
-- subject_key: of the slot for one subject; value: normalised, empty for whatever the slot held.
-- valid_until: as of when, if that was said. It goes with any of its turns, and with its run.
CREATE TABLE retractions (
    tenant_id      text COLLATE "C" NOT NULL,
    retraction_id  uuid NOT NULL,
    run_id         uuid NOT NULL,
    fact_type      text COLLATE "C" NOT NULL,
    slot           text COLLATE "C" NOT NULL,
    subject_key    text COLLATE "C" NOT NULL,
    value          text COLLATE "C" NOT NULL,
    said_at        timestamptz NOT NULL,
    valid_until    timestamptz,
    thread_id      text COLLATE "C" NOT NULL,
    event_ids      text[] COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, retraction_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, run_id) ON DELETE CASCADE
);
CREATE INDEX retractions_of_slot ON retractions (tenant_id, slot);
CREATE INDEX retractions_of_thread ON retractions (tenant_id, thread_id);
CREATE INDEX retractions_of_run ON retractions (tenant_id, run_id);
SELECT protect('retractions');

-- bounded: what a run wrote had ended already, by the target; who undoes that undoes this run first.
ALTER TABLE run_changes DROP CONSTRAINT run_changes_change_check;
ALTER TABLE run_changes ADD CONSTRAINT run_changes_change_check
    CHECK (change IN ('closed', 'retired', 'sourced', 'renewed', 'rated', 'summary', 'edge',
                      'bounded'));
