-- Returns whether a message waits to be taken. No row if the run does not exist.
SELECT EXISTS (SELECT FROM pleach_inbox i WHERE i.run = r.no AND i.n = {number}::bigint AND i.taken_seq IS NULL) AS untaken
FROM pleach_run r
WHERE r.id = {run}::text AND {known_format}
