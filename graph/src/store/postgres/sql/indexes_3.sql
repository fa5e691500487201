-- The indexes of format 3: claims by graph, fingerprint and schema; lists by status, by graph, and
-- by both.
CREATE INDEX pleach_run_due ON pleach_run (graph, fingerprint, schema, GREATEST(wake_at, lease_until)) WHERE wake_at IS NOT NULL;
CREATE INDEX pleach_run_status ON pleach_run (status, no);
CREATE INDEX pleach_run_graph ON pleach_run (graph, no);
CREATE INDEX pleach_run_graph_status ON pleach_run (graph, status, no);
