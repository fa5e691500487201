-- From format 4 to 5. Messages that were refused before have no cause.
ALTER TABLE pleach_inbox
    ADD COLUMN cause text;
UPDATE pleach_format SET format = 5;
