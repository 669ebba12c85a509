"""One node: builds the services from the settings, runs them in one task group, and stops in
order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pgcron_ha.client.workflows import AD_HOC
from pgcron_ha.config.settings import Settings
from pgcron_ha.db.driver.revision import require_revision
from pgcron_ha.engine.admit.admission import Admission
from pgcron_ha.engine.claim.acceptance import settle_orphans
from pgcron_ha.engine.claim.breakers import Breakers
from pgcron_ha.engine.claim.dispatcher import Dispatcher
from pgcron_ha.engine.connections import node_link, node_links
from pgcron_ha.engine.finish.completer import Completer
from pgcron_ha.engine.lease.lease import LeasePhase
from pgcron_ha.engine.lease.reaper import Reaper
from pgcron_ha.engine.lease.reconcile import Beat, reconcile
from pgcron_ha.engine.lease.session import Identity, Session, SessionHooks
from pgcron_ha.engine.lease.state_directory import Home
from pgcron_ha.engine.maintain.janitor import Janitor
from pgcron_ha.engine.materialize.backfills import Backfills
from pgcron_ha.engine.materialize.materializer import Materializer
from pgcron_ha.engine.node_status import ServiceHealth, snapshot
from pgcron_ha.engine.notifications import Listener
from pgcron_ha.engine.process_exit import EXIT_UNRESPONSIVE, ForcedExit
from pgcron_ha.engine.run.executors import build_executors, declared_breakers, handler_policies
from pgcron_ha.engine.run.recorder import Recorder
from pgcron_ha.engine.run.runner import Ended, Runner
from pgcron_ha.engine.run.timeouts import LAST_RESORT_SECONDS, Watch, end_soon
from pgcron_ha.engine.service import Service
from pgcron_ha.engine.workflows.progress import Workflows
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.base import Context, Interrupted, StopReason
from pgcron_ha.executors.contract.coroutines import post
from pgcron_ha.executors.contract.masking import remember_password
from pgcron_ha.operating_system import boottime
from pgcron_ha.telemetry.events import NodeEndsItself, NodeLeft
from pgcron_ha.telemetry.log import emit
from pgcron_ha.telemetry.node_snapshot import NodeSnapshot

if TYPE_CHECKING:
    from pgcron_ha.client.app import App

_REPORT_SECONDS: Final = 10.0
_TICK_SECONDS: Final = 0.2


class Node:
    """A process of the cluster. `run` returns after `stop` or a signal to stop."""

    def __init__(self, settings: Settings, apps: Sequence[App] = (), version: str = "0") -> None:
        """Raises ConfigError when no database is given or a capability can't be offered here."""
        self.settings = settings
        self._dsn = settings.required_dsn()
        for dsn in settings.dsns().values():
            remember_password(dsn)
        self._apps = list(apps)
        for app in apps:
            app.attach(self._dsn, settings.schema, settings.listen_dsn)
        self._version = version
        self._stop = asyncio.Event()
        self._is_hurried = False
        self._was_cordoned = False
        self._revision: str | None = None
        self._unknown: dict[int, tuple[UUID, float]] = {}
        self._unresponsive: str | None = None
        self.forced_exit: ForcedExit | None = None
        """What the process must still do after `run`, since a handler goes on in it: `bid` it."""
        self._services: list[Service] = []

    def stop(self) -> None:
        """Drain and leave; called again, without waiting for what runs. From the node's loop."""
        self._is_hurried = self._stop.is_set()
        self._stop.set()

    async def run(self) -> None:
        """Joins, works, and leaves in order.

        Raises PgcronError when the database can't be used at the start (wrong DSN, missing schema,
        no rights); later the node waits for it.
        """
        await self._check_database()
        node = self.settings.node
        home = await asyncio.to_thread(Home, node.state_directory, node.name)
        try:
            await self._build(home)
            await self._work()
        except BaseExceptionGroup as group:
            raise _first_of_own(group) from group
        finally:
            if self.forced_exit is None:  # else the lock, too, ends with the process
                home.release()

    def look(self) -> NodeSnapshot:
        """The node's state, for display: from memory, in the node's own thread."""
        if not self._services:
            return NodeSnapshot(self.settings.node.name)
        return snapshot(self.session, self.runner, self._links, self._services)

    async def _check_database(self) -> None:
        link, schema = node_link(self.settings, "start"), self.settings.schema
        try:
            self._revision = await link.check(partial(require_revision, schema=schema))
            for app in self._apps:
                await link.check(partial(app.put_workflows, schema=schema))
                await link.check(partial(app.put_schedules, schema=schema))
        finally:
            await link.close()

    # Building.

    async def _build(self, home: Home) -> None:
        settings, apps, node = self.settings, self._apps, self.settings.node
        self._loop = asyncio.get_running_loop()
        links = self._links = node_links(settings, self._revision)
        self.runner = Runner(
            node.slots, lambda: self.session.lease.is_held(boottime()), self._collect
        )
        endings, takeovers, upkeep = links["endings"], links["takeovers"], links["upkeep"]
        recorder = self._recorder = Recorder(endings)
        # What is wrong with the settings is found before executors begin to work.
        policies, declared = handler_policies(settings, apps), declared_breakers(settings, apps)
        audit: list[Service] = []
        if (url := settings.audit.webhook) is not None:
            from pgcron_ha.engine.maintain.audit_webhook import AuditWebhook  # loads HTTP

            audit.append(AuditWebhook(upkeep, settings.audit, url))
        self._executors = await build_executors(settings, apps, self.runner, recorder, home)
        self.runner.use(self._executors, policies)
        own = [each.handlers() for each in self._executors.values()]
        handlers = tuple(sorted({f"workflow:{AD_HOC}"}.union(*own)))
        identity = Identity(
            node.name, self._version, home.identity, node.slots, node.queues, handlers, node.labels
        )
        self.session = Session(self._dsn, settings.schema, identity, node.lease_ttl, self._hooks())
        self._admission = Admission(links["admission"], lambda: self._dispatcher.made_ready())
        weights = {name: each.weight for name, each in policies.items() if each.weight > 1}
        claims, expect = links["claims"], self._admission.expect
        self._dispatcher = Dispatcher(
            claims, self.session, self.runner, node.poll_interval, node.prefetch, weights, expect
        )
        admit = self._admission.look
        self._breakers = Breakers(upkeep, node.queues, self._dispatcher, declared, admit)
        self._workflows = Workflows(links["admission"], self.session, self._dispatcher, admit)
        self._completer = Completer(endings, node.name, self.runner, recorder, self._on_settled)
        self._materializer = Materializer(upkeep, node.horizon, self._admission.hint)
        self._backfills = Backfills(upkeep, self._admission.hint)
        self._reaper = Reaper(takeovers, node.lease_ttl)
        self._watch = Watch(takeovers, self.runner, node.unresponsive_after, self._on_unresponsive)
        self._janitor = Janitor(upkeep, settings.schema)
        self._listener = self._build_listener()
        self._services = [
            self._admission,
            self._dispatcher,
            self._completer,
            self._recorder,
            self._materializer,
            self._backfills,
            self._workflows,
            self._reaper,
            self._watch,
            self._janitor,
            self._breakers,
            self._listener,
            *audit,
        ]

    def _build_listener(self) -> Listener:
        return Listener(
            self._links["listening"],
            self._links["upkeep"],
            {
                "run": self._dispatcher.wake,
                "admit": self._admission.look,
                "schedule": self._on_schedule,
                "backfill": self._backfills.wake,
                "workflow": self._workflows.wake,
                "cancel": self.session.beat_now,
                "breaker": self._breakers.wake,
                "node": self.session.beat_now,
                "callback": self._on_callback,
            },
            self._dispatcher.trust_notifications,
            self.session.beat_now,  # which says it, so that people see it
            has_own_dsn=self.settings.listen_dsn is not None,
        )

    def _hooks(self) -> SessionHooks:
        return SessionHooks(
            beat=lambda beat: post(self._loop, self._on_beat, beat),
            phase=self._on_phase,
            fenced=lambda: post(self._loop, self._on_fenced),
            joined=lambda: post(self._loop, self._on_joined),
            renewed=self._on_renewed,
            is_quiet=lambda: self.runner.executing == 0 and self.runner.waiting == 0,
            report=lambda: {
                "slots_used": self.runner.executing,
                "health": self._health.text,
                "is_unresponsive": self._listener.is_unresponsive,
            },
        )

    # Working.

    async def _work(self) -> None:
        self._health = ServiceHealth(self._services, self.session.beat_now)
        self.session.start()
        try:
            async with asyncio.TaskGroup() as group:
                ticking = group.create_task(self._tick())
                for service in self._services:
                    group.create_task(service.run(), name=service.name)
                await self._stop.wait()
                await self._drain()
                ticking.cancel()
                for service in self._services:
                    service.stop()
        finally:
            await self._close()

    async def _tick(self) -> None:
        while True:
            self.session.tick()
            self._health.look()
            if self.session.refusal is not None:
                raise self.session.refusal
            self.runner.check_executors()
            await asyncio.sleep(min(_TICK_SECONDS, self.settings.node.lease_ttl / 10))

    async def _drain(self) -> None:
        """No new work; what runs may end within the grace time; what did not begin is given
        back.
        """
        self.session.drain()
        self._dispatcher.stop()
        self._materializer.stop()
        self._backfills.stop()
        stopped = Interrupted(StopReason.SHUTDOWN, "the node stops")
        for each in self.runner.take_waiting():
            self.runner.done(each, stopped)
        grace = self.settings.node.grace
        if not await self._until(lambda: self._has_ended() or self._is_hurried, grace):
            self._is_hurried = True
        for each in self.runner.take_waiting():  # what was prepared meanwhile waits again
            self.runner.done(each, stopped)
        if self._is_hurried:
            self.runner.stop_all(StopReason.SHUTDOWN)
            await self._until(self._has_ended, _REPORT_SECONDS)
        immune = {context.run_id for context in self.runner.kill_stopped(grace=0)}
        await self._until(lambda: self.runner.held().keys() <= immune, _REPORT_SECONDS)

    def _has_ended(self) -> bool:
        """Whether everything has, but for what never will."""
        return self.runner.executing <= self._watch.immune

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        end = monotonic() + seconds
        while not condition():
            if monotonic() > end:
                return False
            await asyncio.sleep(0.01)
        return True

    async def _close(self) -> None:
        # The lease is given up last, and not at all while a handler can only be ended by the end of
        # this process: nobody may begin its run before that.
        for executor in self._executors.values():
            await executor.close(LAST_RESORT_SECONDS)
        because = "stopped in order" if self._stop.is_set() else "stopped by an error"
        leaves_handlers, incarnation = self.runner.runs_on(), self.session.incarnation
        if leaves_handlers and incarnation is not None:
            reason = self._unresponsive or f"{because}, with a handler that did not stop"
            status = 0 if self._unresponsive is None else EXIT_UNRESPONSIVE
            self.forced_exit = ForcedExit(
                self._dsn, self.settings.schema, str(incarnation), reason, status
            )
        self.session.stop(None if leaves_handlers else because)
        await asyncio.to_thread(self.session.join, _REPORT_SECONDS)
        for link in self._links.values():
            await link.close()
        emit(NodeLeft(self.settings.node.name, "stopped" if self._stop.is_set() else "failed"))

    # What the session says. `_on_phase` and `_on_renewed` run in its thread.

    def _on_renewed(self, deadline: float) -> None:
        for executor in self._executors.values():
            executor.renew_lease(deadline)

    def _on_phase(self, phase: LeasePhase) -> None:
        if phase >= LeasePhase.LOST:
            # Until somebody has declared this incarnation dead its runs are its own.
            is_own = self.session.incarnation is not None
            self.runner.stop_all(StopReason.LEASE_LOST, spares_finishing=is_own)
        if phase is LeasePhase.OVER and self.runner.kill_stopped(grace=0):
            end_soon(self.runner, self.session.lease)

    def _on_joined(self) -> None:
        self._unknown = {}
        self._dispatcher.joined()
        self._workflows.joined()
        self._admission.look()
        self._materializer.wake()
        self._reaper.wake()

    def _on_fenced(self) -> None:
        self.runner.forget(self.runner.take_waiting())
        self.runner.stop_all(StopReason.LEASE_LOST)
        self._reaper.peers.forget()

    def _on_beat(self, beat: Beat) -> None:
        for link in self._links.values():
            link.use_revision(beat.revision)
        for service in self._services:
            service.retry()
        self._reaper.peers.observe(beat)
        self._breakers.observe(beat.breakers)
        is_cordoned = self.session.is_cordoned
        if is_cordoned != self._was_cordoned:
            self._was_cordoned = is_cordoned
            self._dispatcher.wake()
            if not is_cordoned:
                self._admission.look()  # at what was blocked for want of this node
        settled_at = self._dispatcher.claims.settled_at()
        result = reconcile(beat, self.runner.held(), self._unknown, settled_at)
        self._unknown = result.unknown
        for run in result.to_stop:
            self.runner.stop(run, StopReason.LEASE_LOST)
        for run in result.to_cancel:
            self.runner.stop(run, StopReason.CANCELLED)
        for run in result.to_kill:
            self.runner.kill(run)
        if result.to_release:
            self._settling = asyncio.ensure_future(
                settle_orphans(self._links["upkeep"], self.settings.node.name, result.to_release)
            )
        self.runner.start_waiting()  # the lease may be back

    def _on_unresponsive(self, context: Context) -> None:
        if self.settings.node.on_unresponsive_handler != "exit" or self._unresponsive is not None:
            return
        what = f"run {context.run_id} ({context.handler}) went on though asked to stop"
        self._unresponsive = f"ended itself: {what} ({context.stop_reason})"
        emit(NodeEndsItself(context.run_id, context.handler))
        self._stop.set()

    # What notifications say.

    def _on_schedule(self) -> None:
        self._materializer.wake()
        self._admission.look()

    def _on_callback(self) -> None:
        """A service has called back, perhaps for a run of this node."""
        http: Any = self._executors.get("http")
        if http is not None:
            http.callbacks_came()

    # What the runner says.

    def _on_settled(self) -> None:
        self._admission.settled(self.runner.holds)
        self._dispatcher.settled()
        self._backfills.settled()
        self._breakers.settled()

    def _collect(self, ended: list[Ended]) -> None:
        self._completer.add(ended)
        self._dispatcher.ended(ended)


def _first_of_own(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The `PgcronError` that ended the services, or the group itself if there is none (a bug)."""
    own = group.subgroup(PgcronError)
    found: BaseException = group if own is None else own
    while own is not None and isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
