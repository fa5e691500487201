-- Reads untaken messages, until the messages before exceed {bytes_max}.
SELECT n, at, name, dedup, sum, payload
FROM (
    SELECT i.*,
        sum(octet_length(i.payload)) OVER (ORDER BY i.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM pleach_inbox i
    WHERE i.run = (SELECT no FROM pleach_run WHERE id = {run}::text)
        AND i.n > {after}::bigint
        AND i.taken_seq IS NULL
        AND {known_format}
    ORDER BY i.n
    LIMIT {count}::bigint
) AS found
WHERE before IS NULL OR before <= {bytes_max}::bigint
ORDER BY n
