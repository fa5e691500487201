-- {sum} is the checksum without the times, which the database adds. {more} inserts the tags of a run
-- that has some.
WITH created_run AS (
    INSERT INTO pleach_run (
        id, graph, fingerprint, schema, instance, status, epoch, head, oldest, owner, lease_until, wake_at, takeovers, posted,
        from_run, from_seq, created, changed, deadline, tags, sum
    )
    SELECT {run}::text, {graph}::text, {fingerprint}::text, {schema}::bigint, {instance}::bigint, {status}::text, 1, {head}::bigint, 1,
        {owner}::text, t.lease_until, t.wake_at, 0, 0, {from_run}::text, {from_seq}::bigint, t.now, t.now, t.deadline, {tags}::text,
        {sum}::bigint # t.now # COALESCE(t.lease_until, -1) # COALESCE(t.wake_at, -1) # COALESCE(t.deadline, 0)
    FROM (
        SELECT {now} AS now,
            {now} + {lease}::bigint AS lease_until,
            {now} + {deadline}::bigint AS deadline,
            CASE WHEN {is_due}::bool THEN {now} ELSE {wake_at}::bigint END AS wake_at
    ) AS t
    WHERE {known_format}
    ON CONFLICT (id) DO NOTHING
    RETURNING *
), logged AS (
    INSERT INTO pleach_log (run, seq, sum, header, body)
    SELECT created_run.no, r.seq, r.sum, r.header, r.body
    FROM created_run,
        unnest({sequences}::bigint[], {sums}::bigint[], {headers}::bytea[], {bodies}::bytea[]) AS r (seq, sum, header, body)
){more}
SELECT {columns}, created AS now, {durable}
FROM created_run
