-- Settings of one connection. Stricter limits that the role or the database has already are kept.
SELECT
    -- An acknowledged commit must be on disk. Every other value promises at least that.
    CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END,
    CASE WHEN current_setting('lock_timeout')::interval NOT BETWEEN '1ms' AND {lock_timeout}::text::interval
        THEN set_config('lock_timeout', {lock_timeout}::text, false) END,
    CASE WHEN current_setting('idle_in_transaction_session_timeout')::interval NOT BETWEEN '1ms' AND {idle_timeout}::text::interval
        THEN set_config('idle_in_transaction_session_timeout', {idle_timeout}::text, false) END,
    -- The server finds out that a client's machine is gone, and lets go of what it had locked. 0 is the system's default: hours.
    CASE WHEN current_setting('tcp_keepalives_idle')::int NOT BETWEEN 1 AND 30 THEN set_config('tcp_keepalives_idle', '30', false) END,
    CASE WHEN current_setting('tcp_keepalives_interval')::int NOT BETWEEN 1 AND 10
        THEN set_config('tcp_keepalives_interval', '10', false) END,
    CASE WHEN current_setting('tcp_keepalives_count')::int NOT BETWEEN 1 AND 3 THEN set_config('tcp_keepalives_count', '3', false) END,
    -- Every statement finds its rows by a key or by an index made for it, whatever the parameters. Planning it each time costs
    -- more than running it. A pool of the caller may run other statements too, and keeps its own setting.
    CASE WHEN {is_own_pool}::bool THEN set_config('plan_cache_mode', 'force_generic_plan', false) END
