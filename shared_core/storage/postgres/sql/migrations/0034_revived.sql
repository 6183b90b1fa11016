-- revived: a faded memory that the run stated again; before says how it had faded.
ALTER TABLE run_changes DROP CONSTRAINT run_changes_change_check;
ALTER TABLE run_changes ADD CONSTRAINT run_changes_change_check
    CHECK (change IN ('closed', 'retired', 'sourced', 'renewed', 'rated', 'summary', 'edge',
                      'bounded', 'moved', 'revived'));
