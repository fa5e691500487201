-- Transactions of this database that are open for a long time. They keep vacuum from removing dead rows.
SELECT
    pid,
    COALESCE(usename::text, '') AS role,
    COALESCE(application_name, '') AS application,
    COALESCE(state, '') AS state,
    (extract(epoch FROM statement_timestamp() - xact_start) * 1000)::bigint AS open_for
FROM pg_stat_activity
WHERE datname = current_database()
    AND pid <> pg_backend_pid()
    AND xact_start < statement_timestamp() - {longer_than}::bigint * interval '1 millisecond'
ORDER BY xact_start
LIMIT {count}::bigint
