-- Renews leases. A row that another transaction has locked is skipped and returned as not done;
-- `renew_one` follows for it. The last row of the result has no id, only the time.
WITH held AS (
    SELECT *
    FROM unnest({runs}::text[], {instances}::bigint[], {epochs}::bigint[], {leases}::bigint[]) AS h (id, instance, epoch, lease)
), free AS (
    SELECT r.no, h.lease
    FROM pleach_run r JOIN held h ON r.id = h.id AND r.instance = h.instance AND r.epoch = h.epoch
    WHERE r.owner IS NOT NULL AND {known_format}
    ORDER BY r.id
    FOR NO KEY UPDATE OF r SKIP LOCKED
), renewed AS (
    UPDATE pleach_run r
    SET lease_until = {now} + free.lease,
        sum = r.sum # COALESCE(r.lease_until, -1) # ({now} + free.lease)
    FROM free
    WHERE r.no = free.no
    RETURNING r.no, r.id, r.instance, r.epoch
)
SELECT id, instance, epoch, true AS done, {now} AS now
FROM renewed
UNION ALL
SELECT r.id, r.instance, r.epoch, false, {now}
FROM pleach_run r JOIN held h ON r.id = h.id AND r.instance = h.instance AND r.epoch = h.epoch
WHERE r.owner IS NOT NULL AND NOT EXISTS (SELECT FROM renewed WHERE renewed.no = r.no)
UNION ALL
SELECT NULL, NULL, NULL, NULL, {now}
