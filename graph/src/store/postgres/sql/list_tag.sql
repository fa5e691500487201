-- Lists runs by tag. `listed_at` is the place of a run in the list: it is that of the tag table,
-- because the time of creation in the run's own row may be damaged. The LIMIT of the inner row keeps
-- the planner, which does not know how few runs have the tag, from joining all runs.
SELECT {columns}, listed_at
FROM (
        SELECT run, run_created AS listed_at
        FROM pleach_tag
        WHERE (key, value, run_created, run) < ({key}::text, {value}::text, {before_created}::bigint, {before_number}::bigint)
            AND (key, value, run_created) >= ({key}::text, {value}::text, {since}::bigint)
        ORDER BY key DESC, value DESC, run_created DESC, run DESC
        LIMIT {count}::bigint
    ) AS found
    CROSS JOIN LATERAL (SELECT {columns} FROM pleach_run WHERE no = found.run LIMIT 1) AS tagged
WHERE {known_format}
ORDER BY listed_at DESC, no DESC
