-- What a job needs beside the turns of its thread; gone when it is done.
ALTER TABLE consolidation_jobs ADD COLUMN payload jsonb;
