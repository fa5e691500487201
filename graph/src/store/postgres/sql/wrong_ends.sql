-- Counts old runs that stay because their ends are not plausible.
SELECT count(*)
FROM pleach_run
WHERE ended_at BETWEEN {earliest}::bigint AND {before}::bigint AND NOT ({plausible_end}) AND {known_format}
