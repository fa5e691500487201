-- Claims ready runs and skips locked rows. A run with too many takeovers becomes stuck instead, and
-- is returned with that status. Numbers that no claim can have written are damage: such rows are
-- not claimed.
WITH due AS (
    SELECT found.no, found.due, found.takeover,
        found.takeover AND found.takeovers >= {takeovers_max}::bigint AS stuck
    FROM unnest({graphs}::text[], {fingerprints}::text[], {schemas}::bigint[]) AS known (graph, fingerprint, schema)
    CROSS JOIN LATERAL (
        SELECT r.no, r.takeovers,
            r.owner IS NOT NULL AND r.owner <> {owner}::text AS takeover,
            GREATEST(r.wake_at, r.lease_until) AS due
        FROM pleach_run r
        WHERE r.graph = known.graph
            AND r.fingerprint = known.fingerprint
            AND r.schema = known.schema
            AND r.wake_at IS NOT NULL
            AND GREATEST(r.wake_at, r.lease_until) <= {now}
            AND r.epoch BETWEEN 1 AND 9000000000000000000
            AND r.takeovers BETWEEN 0 AND 1000000000
        ORDER BY GREATEST(r.wake_at, r.lease_until)
        LIMIT {count}::bigint
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS found
    WHERE {known_format}
    ORDER BY found.due, found.no
    LIMIT {count}::bigint
), claimed AS (
    UPDATE pleach_run r
    SET status = CASE WHEN due.stuck THEN 'stuck' ELSE r.status END,
        wake_at = CASE WHEN due.stuck THEN NULL ELSE r.wake_at END,
        epoch = CASE WHEN due.stuck THEN r.epoch ELSE r.epoch + 1 END,
        owner = CASE WHEN due.stuck THEN NULL ELSE {owner}::text END,
        lease_until = CASE WHEN due.stuck THEN NULL ELSE {now} + {lease}::bigint END,
        takeovers = r.takeovers + CASE WHEN due.takeover AND NOT due.stuck THEN 1 ELSE 0 END,
        sum = r.sum # COALESCE(r.lease_until, -1) # CASE WHEN due.stuck
            THEN (-1) # r.wake_at # (-1)
            ELSE ({now} + {lease}::bigint) # r.epoch # (r.epoch + 1) END
    FROM due
    -- The array keeps the planner, which does not know how few rows are due, from joining all runs.
    WHERE r.no = due.no AND r.no = ANY (ARRAY(SELECT no FROM due))
    RETURNING r.*, due.due
)
SELECT {columns}, {now} AS now, due, {durable}
FROM claimed
