-- From format 1 to 2: the checksums of runs. The same transaction fills them in afterwards.
ALTER TABLE pleach_run ADD COLUMN sum bigint NOT NULL DEFAULT 0;
