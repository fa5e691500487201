-- The fence: updates the run's own row if instance, epoch and head match and the run is held. The
-- rows are inserted from the result. {more_columns} and {more} are empty, unless the commit changes
-- tags or refuses messages.
WITH advanced AS (
    UPDATE pleach_run
    SET head = {new_head}::bigint,
        takeovers = 0,
        trouble = NULL,
        changed = {now},
        status = {new_status},
        wake_at = {new_wake_at},
        ended_at = CASE WHEN {new_status} IN ('running', 'waiting', 'stuck') THEN NULL ELSE {now} END,
        deadline = {new_deadline},
        failure = {new_failure},
        owner = CASE WHEN {release}::bool THEN NULL ELSE owner END,
        lease_until = CASE WHEN {release}::bool THEN NULL ELSE lease_until END,
        fingerprint = COALESCE({fingerprint}::text, fingerprint),
        schema = COALESCE({schema}::bigint, schema),{more_columns}
        sum = sum # {sum_change}::bigint
            # head # {new_head}::bigint
            # COALESCE(wake_at, -1) # COALESCE({new_wake_at}, -1)
            # COALESCE(deadline, 0) # COALESCE({new_deadline}, 0)
            # CASE WHEN {release}::bool THEN COALESCE(lease_until, -1) # (-1) ELSE 0 END
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
SELECT posted, {now} AS now, {durable}, CASE WHEN {notifies}::bool THEN pg_notify('pleach', '')::text END
FROM advanced
