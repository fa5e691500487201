-- Lists runs. Each combination of filters with an index has its own {place} and {order}, which
-- match the index. For a status or a graph, {place} is a range and not an equality: a generic plan
-- does not know how rare a status is, so with an equality the planner would use another index for
-- the order and read all runs.
SELECT {columns}
FROM pleach_run
WHERE {place} AND {known_format}
ORDER BY {order}
LIMIT {count}::bigint
