-- One statement for each set of filters that has an index: {place} and {order} are those of the index. Where status or graph is given, {place} is a
-- range, and not an equality. Otherwise the planner would take the primary key for the order and look at all runs for the rest, since
-- a plan for all parameters does not know how rare a status is.
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
