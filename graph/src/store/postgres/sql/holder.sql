-- Reads the lease of a run without checking its row.
SELECT owner, lease_until, {now} AS now
FROM pleach_run
WHERE id = {run}::text AND {known_format}
