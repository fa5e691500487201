, untagged AS (
    DELETE FROM pleach_tag t USING advanced
    WHERE {changes_tags}::bool AND t.run = advanced.no
        AND NOT EXISTS (
            SELECT FROM unnest({tag_keys}::text[], {tag_values}::text[]) AS n (key, value)
            WHERE n.key = t.key AND n.value = t.value
        )
), tagged AS (
    INSERT INTO pleach_tag (key, value, run_created, run)
    SELECT n.key, n.value, advanced.created, advanced.no
    FROM advanced, unnest({tag_keys}::text[], {tag_values}::text[]) AS n (key, value)
    WHERE {changes_tags}::bool
    ON CONFLICT DO NOTHING
), refused AS (
    UPDATE pleach_inbox i
    SET taken_seq = {new_head}::bigint, payload = ''::bytea, refused = n.reason, cause = n.cause
    FROM advanced, unnest({refused}::bigint[], {reasons}::text[], {causes}::text[]) AS n (number, reason, cause)
    WHERE i.run = advanced.no AND i.n = n.number AND i.taken_seq IS NULL
), forgotten AS (
    UPDATE pleach_inbox i
    SET refused = NULL, cause = NULL
    FROM advanced
    WHERE i.run = advanced.no AND i.refused IS NOT NULL AND i.n <= (
        SELECT o.n
        FROM pleach_inbox o
        WHERE o.run = advanced.no AND o.refused IS NOT NULL
        ORDER BY o.n DESC
        LIMIT 1 OFFSET {refused_kept}::bigint
    )
)