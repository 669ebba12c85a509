"""The demo: a few nodes as processes, half a dozen schedules that do something real, a live table.

`show` is the demo from its first to its last line. `accounting` is the independent look at its end:
it computes from each schedule's spec what was owed, and asks the ledger what became of it. What the
nodes execute stands in `app` and `backup`; they are told where to work by environment variables
(`places`). On Linux the nodes end with the demo however it ends; elsewhere a demo that is killed by
``kill -9`` leaves them running.
"""
