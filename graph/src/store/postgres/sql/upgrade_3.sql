-- From format 2 to 3. Instance 0 and a missing deadline do not change the checksums of existing
-- runs.
ALTER TABLE pleach_run
    ADD COLUMN instance bigint NOT NULL DEFAULT 0,
    ADD COLUMN trouble text,
    ADD COLUMN deadline bigint;
DROP INDEX pleach_run_due;
CREATE INDEX pleach_run_due ON pleach_run (graph, fingerprint, schema, GREATEST(wake_at, lease_until)) WHERE wake_at IS NOT NULL;
UPDATE pleach_format SET format = 3;
