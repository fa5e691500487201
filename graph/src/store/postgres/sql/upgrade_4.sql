-- From format 3 to 4. Runs without tags keep their checksums. Formats before 3 had no list indexes.
ALTER TABLE pleach_run
    ADD COLUMN tags text,
    ADD COLUMN failure text;
ALTER TABLE pleach_inbox
    ADD COLUMN refused text;
DROP INDEX IF EXISTS pleach_run_status, pleach_run_graph, pleach_run_graph_status;
UPDATE pleach_format SET format = 4;
