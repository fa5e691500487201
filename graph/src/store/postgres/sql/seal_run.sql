UPDATE pleach_run
SET sum = {sum}::bigint
WHERE no = {no}::bigint
