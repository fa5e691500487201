-- Reads a run's own row.
SELECT {columns}, {now} AS now
FROM pleach_run
WHERE id = {run}::text AND {known_format}
