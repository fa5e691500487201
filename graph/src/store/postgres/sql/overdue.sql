-- Finds runs that are due for some time and unclaimed. The first part steps through the graph
-- versions by the index of due runs, one step for each version. The second part reads a few runs of
-- each.
WITH RECURSIVE version AS (
    (
        SELECT graph, fingerprint, schema, 1 AS number
        FROM pleach_run
        WHERE wake_at IS NOT NULL
        ORDER BY graph, fingerprint, schema
        LIMIT 1
    )
    UNION ALL
    SELECT next.graph, next.fingerprint, next.schema, version.number + 1
    FROM version
    CROSS JOIN LATERAL (
        SELECT r.graph, r.fingerprint, r.schema
        FROM pleach_run r
        WHERE r.wake_at IS NOT NULL
            AND (r.graph, r.fingerprint, r.schema) > (version.graph, version.fingerprint, version.schema)
        ORDER BY r.graph, r.fingerprint, r.schema
        LIMIT 1
    ) AS next
    WHERE version.number < {versions}::bigint
)
SELECT {columns}, due
FROM (
    SELECT found.*
    FROM version
    CROSS JOIN LATERAL (
        SELECT r.*, GREATEST(r.wake_at, r.lease_until) AS due
        FROM pleach_run r
        WHERE r.graph = version.graph
            AND r.fingerprint = version.fingerprint
            AND r.schema = version.schema
            AND r.wake_at IS NOT NULL
            AND GREATEST(r.wake_at, r.lease_until) <= {now} - {due_for}::bigint
        ORDER BY GREATEST(r.wake_at, r.lease_until)
        LIMIT {count}::bigint
    ) AS found
) AS overdue
WHERE {known_format}
ORDER BY due, no
