"""What pages read: bounded, read-only statements (``sql/pages_*.sql``), one module for each file.

Every function takes a connection of `pgcron_ha.db.driver.pool`, gives dictionaries of plain
values (aware UTC datetimes, seconds as numbers, JSON as text) and reads a number of rows that its
constants bound, whatever the tables hold.
"""
