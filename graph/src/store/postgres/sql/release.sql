-- Releases runs. {skip} is `SKIP LOCKED` for several runs and empty for one: only a statement for
-- one run may wait for a row.
WITH held AS (
    SELECT *
    FROM unnest({runs}::text[], {instances}::bigint[], {epochs}::bigint[]) AS h (id, instance, epoch)
), free AS (
    SELECT r.no,
        CASE WHEN {delay}::bigint IS NULL OR r.status NOT IN ('running', 'waiting') THEN 'same'
            WHEN {troubled}::bool AND r.takeovers >= {takeovers_max}::bigint - 1 THEN 'stuck'
            ELSE 'delay' END AS next
    FROM pleach_run r JOIN held h ON r.id = h.id AND r.instance = h.instance AND r.epoch = h.epoch
    WHERE r.owner IS NOT NULL AND {known_format}
    ORDER BY r.id
    FOR NO KEY UPDATE OF r {skip}
), released AS (
    UPDATE pleach_run r
    SET owner = NULL,
        lease_until = NULL,
        -- A damaged number must not overflow, because the same statement releases other runs.
        takeovers = CASE WHEN {troubled}::bool THEN LEAST(r.takeovers, 1000000000) + 1 ELSE r.takeovers END,
        trouble = COALESCE({reason}::text, r.trouble),
        status = CASE WHEN free.next = 'stuck' THEN 'stuck' ELSE r.status END,
        wake_at = {next_wake_at},
        sum = r.sum
            # COALESCE(r.lease_until, -1) # (-1)
            # COALESCE(r.wake_at, -1) # COALESCE({next_wake_at}, -1)
    FROM free
    WHERE r.no = free.no
    RETURNING r.no, r.id, r.instance, r.epoch
)
SELECT id, instance, epoch, true AS done
FROM released
UNION ALL
SELECT r.id, r.instance, r.epoch, false
FROM pleach_run r JOIN held h ON r.id = h.id AND r.instance = h.instance AND r.epoch = h.epoch
WHERE r.owner IS NOT NULL AND NOT EXISTS (SELECT FROM released WHERE released.no = r.no)
