-- Reads the runs whose ids are in a range, in any order.
SELECT {columns}
FROM pleach_run
WHERE id >= {first}::text AND id < {end}::text AND {known_format}
LIMIT {count}::bigint
