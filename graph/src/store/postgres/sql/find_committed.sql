-- Finds out whether a commit has succeeded before: the last row of the log has the same header.
SELECT r.posted, {now} AS now
FROM pleach_run r JOIN pleach_log l ON l.run = r.no AND l.seq = r.head
WHERE r.id = {run}::text
    AND r.instance = {instance}::bigint
    AND r.epoch = {epoch}::bigint
    AND r.head = {head}::bigint
    AND l.header = {header}::bytea
