-- Wakes the listeners of other machines, in a transaction of its own: a commit with a notification
-- takes a lock of the whole server. Losing it costs a delay, so it need not be on disk.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('pleach', '')::text
