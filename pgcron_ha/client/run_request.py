"""One wish for a run, judged before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pgcron_ha.client import checks
from pgcron_ha.client.requirements import Requirements, requirement_words
from pgcron_ha.client.retry_policy import RetryPolicy, retry_text
from pgcron_ha.client.uniqueness import Uniqueness, unique_members
from pgcron_ha.db.commands import functions
from pgcron_ha.db.driver.callers import Parameters, Style, in_style
from pgcron_ha.errors import InvalidInput


class RunRequest(NamedTuple):
    """What `pgcron_ha.db.commands.functions.enqueue` takes, every value checked."""

    handler: str
    args: str
    queue: str
    priority: int
    due_at: datetime | None
    idempotency_key: str | None
    key_lifetime: timedelta
    timeout: timedelta
    max_attempts: int | None
    delivery: str
    retry: str | None
    lane: str | None
    requires: tuple[str, ...] | None
    start_within: timedelta | None
    give_up_after: timedelta | None
    silence_timeout: timedelta | None
    unique: str | None
    weight: int | None

    async def send(self, connection: Any, schema: str, actor: str | None = None) -> int:
        """The run's id; in the transaction of `connection`."""
        if self.unique is not None:
            return await functions.enqueue_request(
                connection, self.as_json(), actor=actor, schema=schema
            )
        return await functions.enqueue(
            connection,
            self.handler,
            self.args,
            queue=self.queue,
            priority=self.priority,
            due_at=self.due_at,
            idempotency_key=self.idempotency_key,
            key_lifetime=self.key_lifetime,
            timeout=self.timeout,
            max_attempts=self.max_attempts,
            delivery=self.delivery,
            retry=self.retry,
            lane=self.lane,
            requires=self.requires,
            start_within=self.start_within,
            give_up_after=self.give_up_after,
            silence_timeout=self.silence_timeout,
            weight=self.weight,
            actor=actor,
            schema=schema,
        )

    def as_statement(self, style: Style, schema: str) -> tuple[str, Parameters]:
        """The statement that `send` sends, and its parameters, for a cursor of the caller's."""
        if self.unique is not None:
            return in_style("enqueue_request", {"options": self.as_json()}, style, schema)
        return in_style("enqueue", self._asdict(), style, schema)

    def as_json(self) -> str:
        """What `pgcron.enqueue_many` takes for it, without what has the default."""
        return f'{{{self.all_but_args()},"args":{self.args}}}'

    def all_but_args(self) -> str:
        """The members of that object that say more than args."""
        members = [f'"handler":"{self.handler}"']
        if self.queue != "default":
            members.append(f'"queue":"{self.queue}"')
        if self.priority != 5:
            members.append(f'"priority":{self.priority}')
        if self.due_at is not None:
            members.append(f'"due_at":"{self.due_at.isoformat()}"')
        if self.idempotency_key is not None:
            members.append(f'"idempotency_key":{json.dumps(self.idempotency_key)}')
            members.append(f'"key_lifetime":"{_interval(self.key_lifetime)}"')
        if self.timeout != functions.RUN_TIMEOUT:
            members.append(f'"timeout":"{_interval(self.timeout)}"')
        if self.max_attempts is not None:
            members.append(f'"max_attempts":{self.max_attempts}')
        if self.delivery != "at_least_once":
            members.append(f'"delivery":"{self.delivery}"')
        if self.retry is not None:
            members.append(f'"retry":{self.retry}')
        if self.lane is not None:
            members.append(f'"lane":{json.dumps(self.lane)}')
        if self.requires is not None:
            members.append(f'"requires":{json.dumps(self.requires)}')
        for name in ("start_within", "give_up_after", "silence_timeout"):
            limit = getattr(self, name)
            if limit is not None:
                members.append(f'"{name}":"{_interval(limit)}"')
        if self.unique is not None:
            members.append(self.unique)
        if self.weight is not None:
            members.append(f'"weight":{self.weight}')
        return ",".join(members)


def request_run(
    handler: str,
    args: Mapping[str, Any] | str | None = None,
    *,
    queue: str = "default",
    priority: int = 5,
    due_at: datetime | None = None,
    idempotency_key: str | None = None,
    key_lifetime: timedelta | float | str | None = None,
    timeout: timedelta | float | str | None = None,
    max_attempts: int | None = None,
    delivery: str = "at_least_once",
    retry: RetryPolicy | str | None = None,
    lane: str | None = None,
    requires: Requirements | None = None,
    start_within: timedelta | float | str | None = None,
    give_up_after: timedelta | float | str | None = None,
    silence_timeout: timedelta | float | str | None = None,
    unique: Uniqueness | None = None,
    weight: int | None = None,
) -> RunRequest:
    """The checked request; raises InvalidInput or TooLarge with the rule and what to do.

    `handler` is a full name; `args` a mapping or JSON text; durations are timedelta or seconds.
    """
    if key_lifetime is not None and idempotency_key is None:
        raise InvalidInput(
            "key_lifetime is given without idempotency_key",
            "It says how long the key is remembered.",
            "Give the key, or leave key_lifetime out.",
        )
    key = idempotency_key
    return RunRequest(
        handler=checks.handler_name(handler),
        args="{}" if args is None else checks.args_text(args),
        queue=checks.queue_name(queue),
        priority=checks.priority(priority),
        due_at=checks.instant("due_at", due_at),
        idempotency_key=None
        if key is None
        else checks.text("the idempotency key", key, checks.MOST_KEY_CHARACTERS),
        key_lifetime=checks.duration("key_lifetime", key_lifetime) or functions.KEY_LIFETIME,
        timeout=checks.duration("timeout", timeout, checks.LONGEST_TIMEOUT)
        or functions.RUN_TIMEOUT,
        delivery=checks.choice("delivery", delivery, checks.DELIVERIES),
        max_attempts=checks.max_attempts(max_attempts, delivery),
        retry=retry_text(retry),
        lane=checks.lane_name(lane),
        requires=requirement_words(requires),
        start_within=checks.duration("start_within", start_within, checks.LONGEST_WAIT),
        give_up_after=checks.duration("give_up_after", give_up_after, checks.LONGEST_WAIT),
        silence_timeout=checks.silence(silence_timeout),
        unique=unique_members(unique, idempotency_key, due_at),
        weight=checks.weight(weight),
    )


def _interval(duration: timedelta) -> str:
    """In hours, which no time zone makes longer or shorter."""
    minutes, seconds = divmod(duration.days * 86_400 + duration.seconds, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}.{duration.microseconds:06}"
