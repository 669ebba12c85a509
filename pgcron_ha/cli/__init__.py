"""The command line: one file per noun, composed by `main`.

A command reads its arguments, calls what is below, and prints. It raises `PgcronError` for whatever
the user can mend; `main` turns that into three lines on stderr and exit code 1. Commands are
imported when they are used, so that `pgcron-ha node` never loads what only `migrate` needs.
"""
