-- The settings of one connection. Stricter limits of the role or the database stay.
SELECT
    -- A confirmed commit must be on disk. Every other value guarantees at least that.
    CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END,
    CASE WHEN current_setting('lock_timeout')::interval NOT BETWEEN '1ms' AND {lock_timeout}::text::interval
        THEN set_config('lock_timeout', {lock_timeout}::text, false) END,
    CASE WHEN current_setting('idle_in_transaction_session_timeout')::interval NOT BETWEEN '1ms' AND {idle_timeout}::text::interval
        THEN set_config('idle_in_transaction_session_timeout', {idle_timeout}::text, false) END,
    -- The server must notice that a client's machine is down, and release its locks. 0 means the
    -- default of the system: hours.
    CASE WHEN current_setting('tcp_keepalives_idle')::int NOT BETWEEN 1 AND 30 THEN set_config('tcp_keepalives_idle', '30', false) END,
    CASE WHEN current_setting('tcp_keepalives_interval')::int NOT BETWEEN 1 AND 10
        THEN set_config('tcp_keepalives_interval', '10', false) END,
    CASE WHEN current_setting('tcp_keepalives_count')::int NOT BETWEEN 1 AND 3 THEN set_config('tcp_keepalives_count', '3', false) END,
    -- Every statement finds its rows by a key or a matching index for all parameters, and planning
    -- costs more than execution. A caller's pool may run other statements too, so it keeps its
    -- setting.
    CASE WHEN {is_own_pool}::bool THEN set_config('plan_cache_mode', 'force_generic_plan', false) END
