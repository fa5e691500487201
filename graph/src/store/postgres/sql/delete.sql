-- Deletes a run that has no unexpired lease.
DELETE FROM pleach_run
WHERE id = {run}::text AND (owner IS NULL OR lease_until IS NULL OR lease_until <= {now}) AND {known_format}
RETURNING {durable}
