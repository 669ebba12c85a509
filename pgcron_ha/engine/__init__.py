"""The services of a running node. Read them in the order in which a run passes through them:

- `materialize`: fires within the horizon become runs (`materializer`), schedules are paused,
  resumed and rechecked (`schedule_duties`), backfills and previews are computed.
- `admit`: runs that wait for an event become ready, or end (`admission`).
- `claim`: due runs are claimed (`dispatcher`; where to look: `search_order`; how far
  ahead: `prefetch`; what has a capacity gate: `gated_claims`; a claim that fails:
  `isolated_claims`; where the claimed ones go: `acceptance`).
- `run`: `runner` holds them, `timeouts` ends what lasts too long, `recorder` writes their logs.
- `finish`: `completer` writes how they ended.
- `lease`: the right to do all that: `session` renews it, `reaper` ends what dead nodes left.
- `maintain`: partitions, retention and repairs.

`node` builds these services and runs them (`service`, one bounded pass at a time). `batches`
lets a batch go on without a row that is refused, locked or too slow.

What is promised
----------------
Whatever node, connection or server dies, freezes or is cut off, at whatever moment:

- Each owed fire is decided exactly once: it becomes one run, or a record says why it did not.
- No run is lost: an acknowledged run ends once, and history records its end.
- A run that succeeded was executed to its end at least once, by the claim that reports success.
- What a ``transactional`` run did on its context's connection is committed with its completion,
  fenced by the token, or not at all: once, whatever dies, also after a failover that loses both.
- An ``at_most_once`` run is started at most once; it ends ``lost`` when its node dies.
- No two runs of a schedule with overlap ``skip`` execute at once, and no run executes beside
  itself. (What people ask for again by `retry_run` or `redrive` is a run of its own, beside the
  schedule's.)
- An edit decides no earlier fires: undecided fires of the old timing are recorded as missed.

What is not promised
--------------------
- That what a handler did outside the database happens once. A node that dies after the effect and
  before the completion leaves a run that is executed again. Give the idempotency key, or the
  fence number, to a service that must not do the same work twice.
- That a process that was frozen just between a look at its lease and an outside effect does not
  have that effect when it wakes up. Here its completion is refused; elsewhere only the fence
  number can refuse it.
- Anything that a failover loses: after an asynchronous one, acknowledged commits may be gone.
  With synchronous standbys nothing is.
- Exact times. A fire is late for as long as the database, or every node, is down.

How
---
- A node's lease is its row in ``node``, renewed by `session` in a thread of its own. A run names
  its owner's incarnation.
- Every claim has a random token. Completions, retries, releases and log lines are refused without
  it, so a node that comes back late changes nothing. `completer` sends them in batches; a batch
  without an answer is sent again and looked up by fence number.
- Each beat names the rows that belong to the incarnation. `reconcile` compares them with what the
  node holds: claims whose answer was lost are given back, runs that were taken away are stopped,
  cancel requests are obeyed.
- A node that can't renew stops itself before another node may begin: handlers are asked to stop at
  0.65 of the lease and killed at 0.9 (`lease`), by the clock that goes on during suspend, from the
  moment the renewal was sent. Child processes are killed by their supervisor even when the node
  is frozen or dead.
- `reaper` on every node declares silent nodes dead and ends what they left. A node that restarts
  in its own folder (`state_directory`) holds the lock that proves its predecessor dead, and does
  not wait for the lease.
- `materializer` on every node turns schedules into runs by compare-and-set on the schedule's
  cursor; the ledger's primary key makes a fire one row for ever.
- `dispatcher` claims in batches with SKIP LOCKED, for free slots and a quarter second ahead of
  them; what waits while nothing ends is given back. Schedules that must not overlap are decided
  under try-locks, each step with a fresh snapshot; what may start only once is never claimed ahead.

No node leads. Every duty may be done by several nodes at once. ``tests/chaos`` attacks each of
these promises, and takes away each guard to prove that it would notice.
"""
