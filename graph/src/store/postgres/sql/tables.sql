-- The tables of format 5, without those of `lists`. `changed` is in no index, so a commit that only appends rows changes no
-- index.
CREATE TABLE pleach_run (
    no          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          text COLLATE "C" NOT NULL UNIQUE,
    graph       text COLLATE "C" NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    schema      bigint NOT NULL,
    status      text NOT NULL,
    epoch       bigint NOT NULL,
    head        bigint NOT NULL,
    oldest      bigint NOT NULL,
    owner       text COLLATE "C",
    lease_until bigint,
    wake_at     bigint,
    takeovers   bigint NOT NULL,
    posted      bigint NOT NULL,
    from_run    text,
    from_seq    bigint,
    created     bigint NOT NULL,
    changed     bigint NOT NULL,
    ended_at    bigint,
    sum         bigint NOT NULL DEFAULT 0,
    instance    bigint NOT NULL DEFAULT 0,
    trouble     text,
    deadline    bigint,
    tags        text,
    failure     text
) WITH (fillfactor = 70);

CREATE TABLE pleach_log (
    run    bigint NOT NULL REFERENCES pleach_run (no) ON DELETE CASCADE,
    seq    bigint NOT NULL,
    sum    bigint NOT NULL,
    header bytea NOT NULL,
    body   bytea NOT NULL,
    PRIMARY KEY (run, seq)
);

CREATE TABLE pleach_inbox (
    run       bigint NOT NULL REFERENCES pleach_run (no) ON DELETE CASCADE,
    n         bigint NOT NULL,
    at        bigint NOT NULL,
    name      text NOT NULL,
    dedup     text COLLATE "C",
    sum       bigint NOT NULL,
    taken_seq bigint,
    payload   bytea NOT NULL,
    refused   text,
    cause     text,
    PRIMARY KEY (run, n),
    UNIQUE (run, dedup)
);

CREATE INDEX pleach_inbox_untaken ON pleach_inbox (run, n) WHERE taken_seq IS NULL;
CREATE INDEX pleach_run_ended ON pleach_run (ended_at) WHERE ended_at IS NOT NULL;
-- Claims by graph, fingerprint and schema.
CREATE INDEX pleach_run_due ON pleach_run (graph, fingerprint, schema, GREATEST(wake_at, lease_until)) WHERE wake_at IS NOT NULL;

CREATE TABLE pleach_format (format bigint NOT NULL);
INSERT INTO pleach_format VALUES (5);
