SELECT owner, lease_until, {now} AS now
FROM pleach_run
WHERE id = {run}::text AND {known_format}
