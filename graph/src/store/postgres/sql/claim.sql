-- Writes a claim that was decided from an earlier read of the row. Changes nothing if the row has
-- changed since.
UPDATE pleach_run
SET status = {status}::text,
    epoch = {epoch}::bigint,
    owner = {owner}::text,
    lease_until = {now} + {lease}::bigint,
    wake_at = {wake_at}::bigint,
    takeovers = {takeovers}::bigint,
    sum = sum
        # epoch # {epoch}::bigint
        # COALESCE(lease_until, -1) # COALESCE({now} + {lease}::bigint, -1)
        # COALESCE(wake_at, -1) # COALESCE({wake_at}::bigint, -1)
WHERE no = {no}::bigint
    AND status = {was_status}::text
    AND epoch = {was_epoch}::bigint
    AND owner IS NOT DISTINCT FROM {was_owner}::text
    AND lease_until IS NOT DISTINCT FROM {was_lease_until}::bigint
    AND wake_at IS NOT DISTINCT FROM {was_wake_at}::bigint
    AND takeovers = {was_takeovers}::bigint
    AND {known_format}
RETURNING {columns}, {now} AS now, {durable}
