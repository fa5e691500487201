-- {matches} names a status, a graph, both or neither: one statement for each, so that each has its own index.
SELECT {columns}
FROM pleach_run
WHERE {matches}
    AND no < COALESCE({after}::bigint, 9223372036854775807)
    AND ({created_since}::bigint IS NULL OR created >= {created_since}::bigint)
    AND ({created_before}::bigint IS NULL OR created < {created_before}::bigint)
    AND ({changed_since}::bigint IS NULL OR changed >= {changed_since}::bigint)
    AND ({changed_before}::bigint IS NULL OR changed < {changed_before}::bigint)
ORDER BY no DESC
LIMIT {count}::bigint
