-- Reads one row of a log for each of several runs, with the run's own row, until the rows before
-- exceed {bytes_max}. A row that is not there, or above the head, is missing in the result.
SELECT {columns}, place, seq, row_sum, header, body
FROM (
    SELECT found.*, w.place,
        sum(octet_length(found.header) + octet_length(found.body))
            OVER (ORDER BY w.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM unnest({runs}::text[], {sequences}::bigint[]) WITH ORDINALITY AS w (of_run, of_seq, place)
    CROSS JOIN LATERAL (
        SELECT r.*, l.seq, l.sum AS row_sum, l.header, l.body
        FROM pleach_run r JOIN pleach_log l ON l.run = r.no
        WHERE r.id = w.of_run AND l.seq = w.of_seq AND l.seq BETWEEN r.oldest AND r.head
        LIMIT 1
    ) AS found
    WHERE {known_format}
) AS rows
WHERE before IS NULL OR before <= {bytes_max}::bigint
