-- From format 1 to 2: checksums of runs. They are filled in afterwards, in the same transaction.
ALTER TABLE pleach_run ADD COLUMN sum bigint NOT NULL DEFAULT 0;
