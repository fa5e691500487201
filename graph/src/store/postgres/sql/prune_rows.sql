-- Removes rows of a log. Messages with a dedup text stay as long as the run, because they identify
-- duplicates.
WITH pruned AS (
    UPDATE pleach_run
    SET oldest = GREATEST(oldest, LEAST({before}::bigint, head)),
        sum = sum # oldest # GREATEST(oldest, LEAST({before}::bigint, head))
    WHERE id = {run}::text
        AND instance = {instance}::bigint
        AND epoch = {epoch}::bigint
        AND owner IS NOT NULL
        AND {known_format}
    RETURNING no, LEAST({before}::bigint, head) AS before
), removed AS (
    DELETE FROM pleach_log l USING pruned
    WHERE l.run = pruned.no
        AND l.seq < pruned.before
        AND NOT EXISTS (SELECT FROM unnest({keep}::bigint[]) AS keep (seq) WHERE keep.seq = l.seq)
    RETURNING 1
), emptied AS (
    DELETE FROM pleach_inbox i USING pruned
    WHERE i.run = pruned.no AND i.taken_seq < pruned.before AND i.dedup IS NULL AND i.refused IS NULL
)
SELECT (SELECT count(*) FROM removed)
FROM pruned
