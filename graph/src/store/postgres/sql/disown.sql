-- Leaves runs to nobody that were claimed and turned out to be damaged. They are not due before the lease ends, and can be deleted.
UPDATE pleach_run
SET owner = NULL
WHERE no IN (
    SELECT r.no
    FROM pleach_run r
    WHERE r.no = ANY ({keys}::bigint[]) AND r.owner = {owner}::text
    FOR NO KEY UPDATE SKIP LOCKED
)
