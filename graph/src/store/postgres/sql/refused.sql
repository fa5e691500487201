-- Reads the refused messages of a run.
SELECT n, at, name, refused, cause
FROM pleach_inbox
WHERE run = (SELECT no FROM pleach_run WHERE id = {run}::text) AND refused IS NOT NULL AND {known_format}
ORDER BY n
