-- Lists runs. Each combination of filters with an index has its own {place} and {order}, which
-- match the index. For a status or a graph, {place} is a range and not an equality: a generic plan
-- does not know how rare a status is, so with an equality the planner would use the primary key for
-- the order and read all runs.
SELECT {columns}
FROM pleach_run
WHERE {place}
    AND ({created_since}::bigint IS NULL OR created >= {created_since}::bigint)
    AND ({created_before}::bigint IS NULL OR created < {created_before}::bigint)
    AND ({changed_since}::bigint IS NULL OR changed >= {changed_since}::bigint)
    AND ({changed_before}::bigint IS NULL OR changed < {changed_before}::bigint)
    AND {known_format}
ORDER BY {order}
LIMIT {count}::bigint
