-- Commits of several runs, in the order of their ids. Each fence is judged separately. A run whose
-- fence does not match, or whose row is locked, is missing in the result: nothing of it was written.
-- {set} is `commit_set.sql`.
WITH held AS MATERIALIZED (
    SELECT c.*, found.no AS key
    FROM unnest(
        {runs}::text[], {instances}::bigint[], {epochs}::bigint[], {heads}::bigint[], {new_heads}::bigint[], {statuses}::text[],
        {seens}::bigint[], {wakes}::text[], {wake_ats}::bigint[], {deadlines_are}::text[], {deadlines}::bigint[],
        {releases}::bool[], {failures}::text[]
    ) WITH ORDINALITY AS c (
        of_run, of_instance, of_epoch, old_head, new_head, to_status, has_seen, wakes, to_wake_at, deadline_is, to_deadline,
        releases, to_failure, place
    )
    CROSS JOIN LATERAL (
        SELECT r.no
        FROM pleach_run r
        WHERE r.id = c.of_run
            AND r.instance = c.of_instance
            AND r.epoch = c.of_epoch
            AND r.head = c.old_head
            AND r.owner IS NOT NULL
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS found
    WHERE {known_format}
), advanced AS (
    UPDATE pleach_run
{set}
    FROM held c
    -- The array keeps the planner, which does not know how few runs commit, from joining all runs.
    WHERE no = c.key AND no = ANY (ARRAY(SELECT key FROM held))
    RETURNING no, posted, c.new_head, c.place
), logged AS (
    INSERT INTO pleach_log (run, seq, sum, header, body)
    SELECT advanced.no, r.seq, r.sum, r.header, r.body
    FROM advanced
    JOIN unnest({places}::bigint[], {sequences}::bigint[], {sums}::bigint[], {headers}::bytea[], {bodies}::bytea[])
        AS r (place, seq, sum, header, body) ON r.place = advanced.place
), taken AS (
    UPDATE pleach_inbox i
    SET taken_seq = advanced.new_head, payload = ''::bytea
    FROM advanced
    JOIN unnest({takers}::bigint[], {takes}::bigint[]) AS t (place, n) ON t.place = advanced.place
    WHERE i.run = advanced.no AND i.n = t.n AND i.taken_seq IS NULL
)
SELECT place, posted, {now} AS now, {durable}
FROM advanced
