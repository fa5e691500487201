WITH old AS MATERIALIZED (
    SELECT no
    FROM pleach_run
    WHERE ended_at IS NOT NULL
        AND ended_at <= {now} - {unchanged_for}::bigint
        AND (owner IS NULL OR lease_until IS NULL OR lease_until <= {now})
    ORDER BY ended_at, no
    LIMIT {count}::bigint
    FOR UPDATE SKIP LOCKED
)
DELETE FROM pleach_run r USING old
WHERE r.no = old.no
