SELECT {columns}
FROM pleach_run
