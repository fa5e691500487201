-- Reads the own rows of all runs, for a migration.
SELECT {columns}
FROM pleach_run
