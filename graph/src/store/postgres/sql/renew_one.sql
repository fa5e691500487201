-- Renews one lease, and waits for its row at most {timeout}. The limit is valid for this statement
-- only. It is set before the row is locked, because the update depends on it.
WITH lock_limit AS MATERIALIZED (
    SELECT set_config('lock_timeout', {timeout}::text, true) AS set
)
UPDATE pleach_run r
SET lease_until = {now} + {lease}::bigint,
    sum = r.sum # COALESCE(r.lease_until, -1) # ({now} + {lease}::bigint)
FROM lock_limit
WHERE lock_limit.set IS NOT NULL AND r.id = {run}::text AND r.instance = {instance}::bigint AND r.epoch = {epoch}::bigint
    AND r.owner IS NOT NULL AND {known_format}
