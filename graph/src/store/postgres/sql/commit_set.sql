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
