-- The tag table and the indexes of lists, since format 4. An index of a list ends with the order of
-- the list: the time of creation, then the key of the run.
CREATE TABLE pleach_tag (
    key         text COLLATE "C" NOT NULL,
    value       text COLLATE "C" NOT NULL,
    run_created bigint NOT NULL,
    run         bigint NOT NULL REFERENCES pleach_run (no) ON DELETE CASCADE,
    PRIMARY KEY (key, value, run_created, run)
);
CREATE INDEX pleach_tag_run ON pleach_tag (run);
CREATE INDEX pleach_inbox_refused ON pleach_inbox (run, n) WHERE refused IS NOT NULL;
CREATE INDEX pleach_run_created ON pleach_run (created, no);
CREATE INDEX pleach_run_status ON pleach_run (status, created, no);
CREATE INDEX pleach_run_graph ON pleach_run (graph, created, no);
CREATE INDEX pleach_run_graph_status ON pleach_run (graph, status, created, no);
