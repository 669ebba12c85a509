"""What a node does while it lives: one service, one file, and `node` that puts them together.

What is promised
----------------
Each owed fire is decided exactly once, no run is lost, and no two handlers of one schedule with
overlap ``skip`` execute at
once, whatever node, connection or server dies at whatever moment. A run that succeeded was executed
completely at least once; an
``at_most_once`` run is started at most once and ends ``lost`` when its node dies. What a handler
did outside the database before
its node died is not undone: give its idempotency key or its fence number to whoever must not do a
thing twice.

How
---
- A node's lease is its row in ``node``, renewed by `session` in a thread of its own. A run names
  its owner's incarnation.
- Every claim has a random token. Completions, retries, releases and log lines are refused without
  it, so a node that comes
  back late changes nothing. `completer` sends, in batches; what got no answer is sent again and
  looked up by fence number.
- Each beat names the rows that belong to the incarnation. `reconcile` compares them with what the
  node holds: claims whose answer
  got lost are given back, runs that were taken away are stopped, cancel requests are obeyed.
- A node that can't renew stops itself before anybody else may begin: handlers are asked to stop at
  0.65 of the lease and killed
  at 0.9 (`lease`), by the clock that goes on during suspend, from the moment the renewal was sent.
  Child processes are killed by
  their supervisor even when the node is frozen or dead.
- `reaper` on every node declares silent nodes dead and ends what they left. A node that restarts in
  its own folder (`home`) holds the
  lock that proves its predecessor dead, and does not wait for the lease.
- `materializer` on every node turns schedules into runs by compare-and-set on the schedule's
  cursor; the ledger's primary key makes a
  fire one row for ever.
- `dispatcher` claims in batches with SKIP LOCKED; schedules that must not overlap are decided under
  try-locks with a fresh snapshot.

No node leads. Every duty may be done by several nodes at once.
"""
