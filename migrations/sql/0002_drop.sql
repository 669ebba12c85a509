-- What 0002 has made. Functions of 0001 that it replaced are put back by the revision itself.
DROP FUNCTION pgcron.oldest_program();
