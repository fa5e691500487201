-- Removes the oldest ended runs that have no unexpired lease, and skips locked rows.
WITH old AS MATERIALIZED (
    SELECT no
    FROM pleach_run
    WHERE ended_at BETWEEN {earliest}::bigint AND {before}::bigint
        AND {plausible_end}
        AND (owner IS NULL OR lease_until IS NULL OR lease_until <= {now})
        AND {known_format}
    ORDER BY ended_at, no
    LIMIT {count}::bigint
    FOR UPDATE SKIP LOCKED
)
DELETE FROM pleach_run r USING old
WHERE r.no = old.no
