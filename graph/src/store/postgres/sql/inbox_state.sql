-- Reads what decides how a message is added: the run's row, a message with the same dedup text, and
-- the untaken messages.
SELECT {columns},
    (SELECT i.n FROM pleach_inbox i WHERE i.run = r.no AND i.dedup = {dedup}::text) AS same,
    CASE WHEN NOT {is_command}::bool THEN (
        SELECT count(*)
        FROM pleach_inbox i
        WHERE i.run = r.no AND i.taken_seq IS NULL
            AND (left(i.name, 7) = 'answer/') = {is_answer}::bool
            AND i.name NOT IN ('command/pause', 'command/resume', 'command/cancel')
    ) END AS untaken,
    CASE WHEN {is_command}::bool THEN (
        SELECT array_agg(i.n ORDER BY i.n)
        FROM pleach_inbox i
        WHERE i.run = r.no AND i.taken_seq IS NULL AND i.name IN ('command/pause', 'command/resume', 'command/cancel')
    ) END AS commands,
    CASE WHEN {is_command}::bool THEN (
        SELECT array_agg(i.name ORDER BY i.n)
        FROM pleach_inbox i
        WHERE i.run = r.no AND i.taken_seq IS NULL AND i.name IN ('command/pause', 'command/resume', 'command/cancel')
    ) END AS command_names
FROM pleach_run r
WHERE r.id = {run}::text AND {known_format}
