"""``pgcron-ha secrets`` and ``pgcron-ha erase``: secret args, and what is personal."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from pgcron_ha.cli.arguments import RUN_ID, JsonCommand, flag, json_value_option, option
from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.output import echo, plural, print_result, report, write
from pgcron_ha.cli.session import Session, act
from pgcron_ha.cli.watching import Screen
from pgcron_ha.client import checks
from pgcron_ha.config import key_ring
from pgcron_ha.db.commands import secrets
from pgcron_ha.errors import Conflict, InvalidInput
from pgcron_ha.executors.contract.secret_values import RESULT, decrypt, encrypt, is_encrypted


@click.group("secrets")
def secrets_group() -> None:
    """Encrypt, rotate and show args that a handler marks as secret."""


@secrets_group.command("encrypt")
@click.argument("handler")
@click.argument("parameter")
@flag("--as-json", "The value is JSON, not a text.")
def encrypt_command(handler: str, parameter: str, as_json: bool) -> None:
    """Print a value encrypted for PARAMETER of HANDLER.

    It is to be written into args. The value is read from stdin, so that it is in no list of
    processes: it is not echoed.
    """
    command_context().load()
    name = checks.handler_name(handler if ":" in handler else f"py:{handler}")
    if sys.stdin.isatty():
        text = click.prompt("Value", hide_input=True, err=True)
    else:
        text = sys.stdin.read().rstrip("\r\n")
    # As it is, which all else shows as a word.
    write(json.dumps(encrypt(_parsed(text) if as_json else text, name, parameter)))


def _parsed(text: str) -> Any:
    try:
        return checks.parsed_json("", text, "")
    except InvalidInput:
        raise InvalidInput(
            "the value is not JSON",
            "It is not shown here, as it is secret.",
            "Write for example 7, or leave --as-json out if it is a text.",
        ) from None


@secrets_group.command("rotate", cls=JsonCommand)
async def rotate_command(session: Session) -> None:
    """Encrypt secret args again, with the first key of secrets.keys.

    Those of schedules, waiting runs and dead letters. What it does not reach is counted as left:
    runs that execute, edited fires, open backfills. When none is left the other keys are needed
    only to show what has ended.
    """
    key = next(iter(key_ring.keys()))
    elsewhere = await session.call(secrets.stale_elsewhere, key)
    left = sum(each["left"] for each in elsewhere)
    for each in elsewhere:
        document = {"kind": each["kind"], "rotated": 0, "left": each["left"]}
        print_result(document, f"{plural(each['left'], each['kind'])} left")
    for kind in secrets.rotations:
        done, missed = await _rotate(session, kind, key)
        left += missed
        document = {"kind": kind, "rotated": done, "left": missed}
        print_result(document, f"{plural(done, kind)} encrypted again, {missed} left")
    if left:
        raise Conflict(
            f"{left} could not be encrypted again",
            "A node executes them, a workflow passes them on, they belong to an edited fire or a"
            " backfill, their key is not in secrets.keys, or they changed meanwhile.",
            "Keep the old key until they have run, or add it; then rotate again.",
        )


async def _rotate(session: Session, kind: str, key: str) -> tuple[int, int]:
    """How many were encrypted again, and how many were not."""
    done = missed = after = 0
    with Screen() as screen:
        while batch := await session.call(secrets.stale, kind, key, after):
            for row in batch:
                args = _again(row["handler"], row["args"])
                texts = [json.dumps(each) for each in (row["args"], args)]
                actor = {"actor": session.actor} if kind == "schedule" else {}
                rotate = secrets.rotations[kind]
                is_done = args and await session.call(rotate.one, row["id"], *texts, **actor)
                done, missed = done + bool(is_done), missed + (not is_done)
            after = batch[-1]["id"]
            screen.show_progress(f"{kind}s encrypted again", done)
    return done, missed


def _again(handler: str, args: dict[str, Any]) -> dict[str, Any] | None:
    """The args with the first key; None if one of them is encrypted for another handler."""
    try:
        return args | {
            name: encrypt(decrypt(each, handler, name), handler, name)
            for name, each in args.items()
            if is_encrypted(each)
        }
    except InvalidInput:
        return None


@secrets_group.command("reveal", cls=JsonCommand)
@click.argument("run_id", type=RUN_ID)
def reveal_command(run_id: int) -> None:
    """Print the secret args and the secret result of a run.

    This host needs the key. The audit says who asked.
    """
    found = act(secrets.reveal, run_id)
    values = dict(found["args"] or {}) | {RESULT: found["result"]}
    shown = {name: each for name, each in values.items() if is_encrypted(each)}
    plain = {name: decrypt(each, found["handler"], name) for name, each in shown.items()}
    report({"run_id": run_id, "values": plain})
    for name, value in plain.items():
        echo(f"{name}={json.dumps(value, ensure_ascii=False)}")
    if not plain:
        echo(f"run {run_id} has no secret values")


@click.command("erase", cls=JsonCommand)
@option("--run RUN_ID", "One run.", RUN_ID, into="run_ids", multiple=True)
@option("--concurrency-key", "Runs with this concurrency key.")
@option("--unique-key", "Runs with this unique key.")
@option("--idempotency-key", "The run with this idempotency key.")
@option("--tag", "Runs with this tag.")
@json_value_option("--args-contain", "Runs whose args have these, a JSON object.")
@flag("--cancel", "Cancel those that are alive first.")
@flag("--dry-run", "Only count them.")
async def erase_command(session: Session, /, dry_run: bool, **given: Any) -> None:
    """Erase what runs have of a person: args, results, log lines, errors and keys.

    Those that fit all options, with what was made of them: steps, and runs tried again. Their rows
    stay, with outcomes and times. What is alive is left alone, and reported.
    """
    given["run_ids"] = list(given["run_ids"]) or None
    total = {"runs": 0, "log_lines": 0, "definitions": 0}
    with Screen() as screen:
        while True:
            found = await session.act(secrets.erase, dry_run=dry_run, **given)
            total = {name: count + found[name] for name, count in total.items()}
            if dry_run or not found["runs"] + found["definitions"]:
                break
            screen.show_progress("runs erased", total["runs"])
    verb = "would be erased" if dry_run else "erased"
    report({**total, "alive": found["alive"], "schedules": found["schedules"], "dry_run": dry_run})
    lines = "" if dry_run else f", {plural(total['log_lines'], 'log line')}"
    definitions = plural(total["definitions"], "old definition")
    echo(f"{plural(total['runs'], 'run')}{lines}, {definitions} {verb}")
    _report_alive(found, dry_run)


def _report_alive(found: dict[str, Any], dry_run: bool) -> None:
    alive, schedules = found["alive"] or [], found["schedules"] or []
    names = [f"run {each}" for each in alive] + [f"schedule {each!r}" for each in schedules]
    if names and not dry_run:
        raise Conflict(
            f"still alive, and not erased: {', '.join(names)}",
            "Only what is over is erased.",
            "Give --cancel for runs; edit or delete schedules; then erase again.",
        )
    for name in names:
        echo(f"{name} is alive")
