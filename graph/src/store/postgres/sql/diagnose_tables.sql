-- The tables that this version needs, with their sizes and the privileges that this role lacks.
SELECT
    name,
    COALESCE(pg_total_relation_size(c.oid), 0) AS bytes,
    COALESCE(s.n_live_tup, 0) AS live_rows,
    COALESCE(s.n_dead_tup, 0) AS dead_rows,
    ARRAY(
        SELECT privilege FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
        WHERE (name <> 'pleach_format' OR privilege = 'SELECT') AND NOT has_table_privilege(c.oid, privilege)
    ) AS missing_privileges
FROM unnest({tables}::text[]) AS name
JOIN pg_class c ON c.relname = name AND c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid)
LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
ORDER BY name
