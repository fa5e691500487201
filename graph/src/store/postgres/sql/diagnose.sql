-- The condition of the server and the database, in one row. Sessions of other roles show no transaction without the role
-- pg_read_all_stats, so a missing row there is no proof.
SELECT
    current_setting('server_version') AS version,
    current_user::text AS role,
    pg_is_in_recovery() AS is_in_recovery,
    current_setting('transaction_read_only') = 'on' AS is_read_only,
    current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on' AS is_durable,
    COALESCE((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS has_tls,
    current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint AS connections_max,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
    pg_database_size(current_database()) AS bytes,
    pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_all_transactions,
    ARRAY(
        SELECT name FROM unnest({indexes}::text[]) AS name
        WHERE NOT EXISTS (
            SELECT FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
            WHERE c.relname = name AND i.indisvalid AND pg_table_is_visible(i.indrelid)
        )
        ORDER BY name
    ) AS missing_indexes
