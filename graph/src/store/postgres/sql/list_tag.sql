-- Lists runs by tag. The array keeps the planner, which does not know how few runs have the tag,
-- from joining all runs.
SELECT {columns}
FROM pleach_run
WHERE no = ANY (ARRAY(
        SELECT run
        FROM pleach_tag
        WHERE (key, value, run_created, run) < ({key}::text, {value}::text, {before_created}::bigint, {before_number}::bigint)
            AND (key, value, run_created) >= ({key}::text, {value}::text, {since}::bigint)
        ORDER BY key DESC, value DESC, run_created DESC, run DESC
        LIMIT {count}::bigint
    ))
    AND {known_format}
ORDER BY created DESC, no DESC
