-- The fence: updates the run's own row if instance, epoch and head match and the run is held. The
-- rows are inserted from the result. {set} is `commit_set.sql`. {more_columns} and {more} are empty, unless the commit changes
-- tags or refuses messages.
WITH advanced AS (
    UPDATE pleach_run
{set}
    WHERE id = {run}::text
        AND instance = {instance}::bigint
        AND epoch = {epoch}::bigint
        AND head = {head}::bigint
        AND owner IS NOT NULL
        AND {known_format}
    RETURNING no, posted, created
), logged AS (
    INSERT INTO pleach_log (run, seq, sum, header, body)
    SELECT advanced.no, r.seq, r.sum, r.header, r.body
    FROM advanced,
        unnest({sequences}::bigint[], {sums}::bigint[], {headers}::bytea[], {bodies}::bytea[]) AS r (seq, sum, header, body)
), taken AS (
    UPDATE pleach_inbox i
    SET taken_seq = {new_head}::bigint, payload = ''::bytea
    FROM advanced
    WHERE i.run = advanced.no AND i.n = ANY ({takes}::bigint[]) AND i.taken_seq IS NULL
){more}
SELECT posted, {now} AS now, {durable}
FROM advanced
