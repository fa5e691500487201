-- The clock of the server at the start of this statement.
SELECT {now} AS now
