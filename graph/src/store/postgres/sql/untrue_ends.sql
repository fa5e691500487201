-- Old runs that stay because their ends cannot be true.
SELECT count(*)
FROM pleach_run
WHERE ended_at BETWEEN {earliest}::bigint AND {before}::bigint AND NOT ({true_end}) AND {known_format}
