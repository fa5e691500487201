-- Writes the checksum of a run during a migration.
UPDATE pleach_run
SET sum = {sum}::bigint
WHERE no = {no}::bigint
