, tagged AS (
    INSERT INTO pleach_tag (key, value, run_created, run)
    SELECT n.key, n.value, created_run.created, created_run.no
    FROM created_run, unnest({tag_keys}::text[], {tag_values}::text[]) AS n (key, value)
)