"""The stand-in of ``claim_limited`` and of the settings it goes by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import UUID

from tests.simulation.store_claims import ClaimStatements, verdict
from tests.simulation.tables import NodeRow, Row, Run

_MOST_STEPS = 2000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LimitStatements(ClaimStatements):
    def set_queue(
        self,
        *,
        name: str,
        max_running: int | None,
        rate: int | None,
        per: float | None,
        actor: str | None,
    ) -> list[Row]:
        self.queue_limits.pop(name, None)
        self._set_rate("queue", name, rate, per)
        if max_running is not None or rate is not None:
            self.queue_limits[name] = float("inf") if max_running is None else max_running
        self.notify("run")
        return [Row(set_queue=None)]

    def set_concurrency(
        self,
        *,
        concurrency_key: str,
        slots: int | None,
        rate: int | None,
        per: float | None,
        actor: str | None,
    ) -> list[Row]:
        self._set_rate(
            "key", concurrency_key, rate, per, is_new=concurrency_key not in self.key_limits
        )
        self.key_limits[concurrency_key] = slots
        self.notify("run")
        return [Row(set_concurrency=None)]

    def delete_concurrency(self, *, concurrency_key: str) -> list[Row]:
        self.key_limits.pop(concurrency_key, None)
        self.rates.pop(("concurrency_key", concurrency_key), None)
        self.notify("run")
        return [Row(delete_concurrency=None)]

    def claim_limited(
        self,
        *,
        incarnation: UUID,
        queues: Sequence[str],
        beyond: Sequence[str],
        handlers: Sequence[str],
        free: int,
        ahead: int,
        look: int,
        aged: bool,
    ) -> list[Row]:
        """Statements are atomic here: every lock can be had. Nothing here takes several slots."""
        rooms = self._rooms(queues)
        walked = [self._resting(queue) for queue in sorted(queues) if self._rests(queue)]
        node = self.nodes.get(incarnation)
        placed: list[str] = []
        pairs: list[tuple[str, str, int, float]] = []
        room = free + ahead
        for queue, begin in zip(queues, beyond, strict=True):
            if queue in rooms or (queue not in self.paused_queues | set(self.queue_limits)):
                found, ended_at, next_due = self._walk(queue, begin, look)
                pairs += [(queue, *pair) for pair in found]
                is_placed, next_placed = self._walk_requirements(queue, node)
                placed += [queue] if is_placed else []
                next_due = min(filter(None, (next_due, next_placed)), default=None)
                if ended_at is not None or found or next_due is not None:
                    wait = None if next_due is None else (next_due - self.now()).total_seconds()
                    walked.append(_walked(queue, ended_at, wait))
        if not pairs and not rooms and not placed:
            return walked
        seen = self._limited_due_index(pairs, rooms, handlers, max(room, 1), node, placed)
        schedules = {run.schedule_id for run in seen if run.overlap is not None}
        chosen: list[Run] = []
        waits: list[Run] = []
        if room and self.is_alive(incarnation) and not self.is_paused:
            due_index = self._limited_due_index(pairs, rooms, handlers, room, node, placed)
            ranked = list(enumerate(self._choose(due_index, rooms, aged)[:room]))
            chosen = [r for place, r in ranked if place < free or r.delivery == "at_least_once"]
            waits = [r for place, r in ranked if place >= free and r.delivery != "at_least_once"]
        claimed = [Row(verdict="claim", **row) for row in self._claim(chosen, incarnation)]
        self._count_starts(chosen, rooms)
        for row, run in zip(claimed, chosen, strict=True):
            row["concurrency_key"], row["weight"] = run.concurrency_key, run.weight or 1
            run.overlap_slot = None if run.overlap is None else 1
        skipped = self._late(schedules)[:1000]
        for run in skipped:
            self._end_waiting(run, "skipped", "the last run is not over")
        reported = [verdict("skip", run) for run in skipped] + [
            verdict("wait", run) for run in waits
        ]
        reported = [Row(row, concurrency_key=None, weight=None) for row in reported]
        parked = self._park_keys(pairs, handlers) if room > len(chosen) else 0
        if parked:
            reported.append(Row(verdict("parked", None), concurrency_key=None, weight=None))
            reported[-1]["due"] = float(parked)
        return walked + claimed + reported

    def _park_keys(
        self, pairs: Iterable[tuple[str, str, int, float]], handlers: Sequence[str]
    ) -> int:
        by_path = self._due()
        parked: list[Run] = []
        for queue, concurrency_key, priority, _ in pairs:
            runs = [
                run
                for run in by_path.get((queue, priority), [])
                if run.concurrency_key == concurrency_key
            ][:1000]
            if runs and not self._is_served(runs[0], handlers):
                wanted = (runs[0].handler, runs[0].requires)
                parked += [run for run in runs if (run.handler, run.requires) == wanted]
        for run in parked[:1000]:
            run.hold = "unserved"
        return len(parked[:1000])

    def _is_served(self, run: Run, handlers: Sequence[str]) -> bool:
        is_own = run.handler in handlers and run.requires is None
        return is_own or self.is_offered(run.handler, run.queue, run.requires)

    def key_room(self, concurrency_key: str) -> float:
        """How many more of the key's runs may begin."""
        if concurrency_key.startswith("*"):
            return float("inf")
        known = self._setting(concurrency_key)
        slots = 1 if known is None else self.key_limits[known]
        room = float("inf") if slots is None else slots - len(self._taken(concurrency_key))
        return min(room, self.rate_room("concurrency_key", concurrency_key, known)[0])

    def rate_room(self, kind: str, name: str, setting: str | None) -> tuple[float, datetime | None]:
        """How many more may start now, and when the next may if none."""
        rate = None if setting is None else self.rates.get((kind, setting))
        if rate is None:
            return float("inf"), None
        most, per = rate
        first = self._slice(per) - 256
        counted = {n: c for n, c in self.starts.get((kind, name), {}).items() if n >= first}
        room = max(0, most - sum(counted.values()))
        if room:
            return room, None
        frees = ((min(counted) + 257) * round(per * 1_000_000) + 255) // 256
        return 0, _EPOCH + timedelta(microseconds=frees)

    def _slice(self, per: float) -> int:
        micros = (self.now() - _EPOCH) // timedelta(microseconds=1)
        return micros * 256 // round(per * 1_000_000)

    def _set_rate(
        self, kind: str, name: str, rate: int | None, per: float | None, is_new: bool = False
    ) -> None:
        """Slices of another length say nothing: what they counted is forgotten."""
        before = self.rates.pop((kind, name), (None, None))
        if rate is not None and per is not None:
            self.rates[kind, name] = rate, per
        if before[1] != per and not is_new:
            for known in [key for key in self.starts if key[0] == kind]:
                if known[1] == name or (name.endswith("*") and known[1].startswith(name[:-1])):
                    del self.starts[known]

    def _count_starts(self, runs: Iterable[Run], rooms: Mapping[str, float]) -> None:
        for run in runs:
            setting = None if run.concurrency_key is None else self._setting(run.concurrency_key)
            for kind, name, known in (
                ("concurrency_key", run.concurrency_key, setting),
                ("queue", run.queue, run.queue),
            ):
                rate = self.rates.get((kind, known or ""))
                if (
                    rate is not None
                    and name is not None
                    and (kind == "concurrency_key" or name in rooms)
                ):
                    counted = self.starts.setdefault((kind, name), {})
                    number = self._slice(rate[1])
                    counted[number] = counted.get(number, 0) + 1

    def _setting(self, concurrency_key: str) -> str | None:
        """The name of the setting that counts for the key."""
        if concurrency_key.startswith("*"):
            return None
        if concurrency_key in self.key_limits:
            return concurrency_key
        beginnings = [
            known
            for known in self.key_limits
            if known.endswith("*") and concurrency_key.startswith(known[:-1])
        ]
        return max(beginnings, key=len, default=None)

    def _taken(self, concurrency_key: str) -> set[int]:
        return {
            run.key_slot
            for run in self.runs.values()
            if run.concurrency_key == concurrency_key and run.key_slot is not None
        }

    def _rooms(self, queues: Iterable[str]) -> dict[str, float]:
        running = Counter(run.queue for run in self.runs.values() if run.state == "running")
        rooms = {
            queue: min(most - running[queue], self.rate_room("queue", queue, queue)[0])
            for queue, most in sorted(self.queue_limits.items())
            if queue in queues and queue not in self.paused_queues
        }
        return {queue: room for queue, room in rooms.items() if room > 0}

    def _rests(self, queue: str) -> bool:
        is_open = queue in self.queue_limits and queue not in self.paused_queues
        return is_open and self.rate_room("queue", queue, queue)[0] == 0

    def _resting(self, queue: str) -> Row:
        _, frees = self.rate_room("queue", queue, queue)
        assert frees is not None
        return _walked(queue, None, (frees - self.now()).total_seconds())

    def _walk(
        self, queue: str, beyond: str, most: int
    ) -> tuple[list[tuple[str, int, float]], str | None, datetime | None]:
        first: dict[tuple[str, int], datetime] = {}
        for run in self.runs.values():
            if (
                run.is_waiting
                and run.queue == queue
                and run.concurrency_key is not None
                and run.concurrency_key > beyond
            ):
                pair = (run.concurrency_key, run.priority)
                first[pair] = min(run.due_at, first.get(pair, run.due_at))
        found: list[tuple[str, int, float]] = []
        next_due: datetime | None = None
        for step, (pair, due_at) in enumerate(sorted(first.items()), 1):
            if due_at > self.now():
                next_due = due_at if next_due is None else min(next_due, due_at)
            elif self.key_room(pair[0]) > 0:
                found.append((*pair, self.key_room(pair[0])))
            else:
                _, frees = self.rate_room("concurrency_key", pair[0], self._setting(pair[0]))
                if frees is not None:
                    next_due = frees if next_due is None else min(next_due, frees)
            if len(found) >= most or step >= _MOST_STEPS:
                return found, pair[0], next_due
        return found, None, next_due

    def _limited_due_index(
        self,
        pairs: Sequence[tuple[str, str, int, float]],
        rooms: Mapping[str, float],
        handlers: Sequence[str],
        room: int,
        node: NodeRow | None,
        placed: Sequence[str],
    ) -> list[Run]:
        now = self.now()
        found: list[Run] = []
        by_path = self._due()
        for queue, concurrency_key, priority, key_room in pairs:
            runs = [
                run
                for run in by_path.get((queue, priority), [])
                if run.concurrency_key == concurrency_key and _suits(node, run.requires)
            ]
            found += _claimable(runs, handlers, now)[: int(min(room, key_room))]
        for queue in rooms:
            for priority in range(10):
                runs = [
                    run for run in by_path.get((queue, priority), []) if run.concurrency_key is None
                ]
                for kind in ("plain", "once", "concurrency_key"):
                    found += _claimable([r for r in runs if r.kind == kind], handlers, now)[:room]
        for queue in placed:
            for requires, priority in self.requirements(queue):
                runs = [
                    run
                    for run in by_path.get((queue, priority), [])
                    if run.kind == "placed" and run.requires == list(requires)
                ]
                if _suits(node, requires):
                    found += _claimable(runs, handlers, now)[:room]
        return found

    def _walk_requirements(self, queue: str, node: NodeRow | None) -> tuple[bool, datetime | None]:
        """Whether something is due that the node satisfies, and when the next of it is."""
        firsts = [due for (req, _), due in self.requirements(queue).items() if _suits(node, req)]
        is_due = any(due <= self.now() for due in firsts)
        return is_due, min((due for due in firsts if due > self.now()), default=None)

    def _choose(
        self, due_index: Sequence[Run], rooms: Mapping[str, float], aged: bool
    ) -> list[Run]:
        """In the order of the claim, each with the slot it gets; `aged`: the oldest due first."""

        def level(run: Run) -> int:
            return 0 if aged else run.priority

        open_due_index = [
            run
            for run in due_index
            if run.overlap_key is None or self.may_take_key(run.overlap_key, run)
        ]
        places: dict[int, int] = {}
        schedules: set[int] = set()
        keys: Counter[str] = Counter()
        urgent = sorted(open_due_index, key=lambda r: (r.overlap_slot is None, level(r), *r.order))
        first = {id(run) for run in urgent if _is_first(run, schedules)}
        turns: list[tuple[int, Run]] = []
        for run in sorted(open_due_index, key=lambda run: (level(run), *run.order)):
            if id(run) not in first:
                continue
            keys[f"*{run.queue}" if run.concurrency_key is None else run.concurrency_key] += 1
            turn = 0 if aged else keys[f"*{run.queue}"]
            if run.concurrency_key is not None:
                if keys[run.concurrency_key] > self.key_room(run.concurrency_key):
                    continue
                places[run.id] = keys[run.concurrency_key]
                turn = (
                    0 if aged else len(self._taken(run.concurrency_key)) + keys[run.concurrency_key]
                )
            turns.append((turn, run))
        turns.sort(key=lambda one: (level(one[1]), one[0], *one[1].order))
        queued: Counter[str] = Counter()
        chosen: list[Run] = []
        for _, run in turns:
            queued[run.queue] += 1
            if run.queue not in rooms or queued[run.queue] <= rooms[run.queue]:
                chosen.append(run)
        slots = {
            run.id: self._slot(run.concurrency_key, places[run.id])
            for run in chosen
            if run.concurrency_key is not None
        }
        self.coming_slots = slots
        return chosen

    def _claim(self, runs: Iterable[Run], incarnation: UUID) -> list[Row]:
        runs = list(runs)
        for run in runs:
            if run.concurrency_key is not None:
                run.key_slot = self.coming_slots[run.id]
        return super()._claim(runs, incarnation)

    def _slot(self, concurrency_key: str, place: int) -> int:
        taken = self._taken(concurrency_key)
        free: Iterator[int] = (number for number in count(1) if number not in taken)
        for _ in range(place - 1):
            next(free)
        return next(free)

    def _late(self, schedules: set[int | None]) -> list[Run]:
        """What is due of these schedules while another run of them is not over."""
        return [
            run
            for run in sorted(self.runs.values(), key=lambda run: run.id)
            if run.overlap_key in schedules
            and run.overlap_key is not None
            and run.is_waiting
            and run.due_at <= self.now()
            and run.overlap_slot is None
            and self.holder_of(run.overlap_key) is not None
        ]


def _is_first(run: Run, schedules: set[int]) -> bool:
    if run.overlap_key is None:
        return True
    is_first = run.overlap_key not in schedules
    schedules.add(run.overlap_key)
    return is_first


def _suits(node: NodeRow | None, requires: Sequence[str] | None) -> bool:
    return not requires or (node is not None and node.satisfies(requires))


def _claimable(runs: Iterable[Run], handlers: Sequence[str], now: datetime) -> list[Run]:
    return [
        run
        for run in runs
        if run.handler in handlers and (run.expire_at is None or run.expire_at > now)
    ]


def _walked(queue: str, ended_at: str | None, seconds: float | None) -> Row:
    row = Row(verdict("walked", None), concurrency_key=ended_at, weight=None)
    row["queue"], row["due"] = queue, seconds
    return row
