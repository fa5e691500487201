-- Adds a message if fewer than {room} messages were added since the inbox was read. Then the
-- decision is still valid.
WITH numbered AS (
    UPDATE pleach_run
    SET posted = posted + 1,
        wake_at = {new_wake_at},
        sum = sum # posted # (posted + 1) # COALESCE(wake_at, -1) # COALESCE({new_wake_at}, -1)
    WHERE no = {no}::bigint
        AND posted >= {posted}::bigint
        AND posted < {posted}::bigint + {room}::bigint
        AND status IN ('running', 'waiting', 'stuck')
        AND {known_format}
    RETURNING no, posted
), replaced AS (
    DELETE FROM pleach_inbox i USING numbered
    WHERE i.run = numbered.no AND i.n = ANY ({replaces}::bigint[]) AND i.taken_seq IS NULL
)
INSERT INTO pleach_inbox (run, n, at, name, dedup, sum, payload)
SELECT numbered.no, numbered.posted, {now}, {name}::text, {dedup}::text, {sum}::bigint, {payload}::bytea
FROM numbered
RETURNING n, {durable}
