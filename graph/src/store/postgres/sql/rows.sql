-- Reads rows of a log, until the rows before exceed {bytes_max}.
SELECT seq, sum, header, body
FROM (
    SELECT l.seq, l.sum, l.header,
        CASE WHEN {whole}::bool THEN l.body ELSE ''::bytea END AS body,
        sum(octet_length(l.header) + CASE WHEN {whole}::bool THEN octet_length(l.body) ELSE 0 END)
            OVER (ORDER BY l.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM pleach_log l
    WHERE l.run = (SELECT no FROM pleach_run WHERE id = {run}::text)
        AND l.seq = ANY ({sequences}::bigint[])
        AND {known_format}
) AS found
WHERE before IS NULL OR before <= {bytes_max}::bigint
ORDER BY seq
