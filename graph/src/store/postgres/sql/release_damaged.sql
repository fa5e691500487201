-- Removes the owner of runs that were claimed and are damaged. They are not due before the lease
-- expires, and can be deleted.
UPDATE pleach_run
SET owner = NULL
WHERE no IN (
    SELECT r.no
    FROM pleach_run r
    WHERE r.no = ANY ({keys}::bigint[]) AND r.owner = {owner}::text
    FOR NO KEY UPDATE SKIP LOCKED
)
