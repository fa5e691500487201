-- Reads the last end before the age limit and the first end after it. Both use the index.
SELECT {now} AS now,
    (SELECT max(ended_at) FROM pleach_run
        WHERE ended_at BETWEEN {earliest}::bigint AND {now} - {unchanged_for}::bigint AND {plausible_end}) AS last_old,
    (SELECT min(ended_at) FROM pleach_run WHERE ended_at > {now} - {unchanged_for}::bigint AND {plausible_end}) AS first_young
WHERE {known_format}
