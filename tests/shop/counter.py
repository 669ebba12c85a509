"""The shop's counters as a program: ``counter.py COUNT`` is one for each interface and point. Each
takes orders, each with the request for its invoice in the same transaction; at the point of the
last one it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from itertools import product
from multiprocessing import get_context
from typing import Final

from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from pgcron_ha import App
from tests.shop.models import Order, Run

HANDLER: Final = "py:send_invoice"

app = App()


def by_sql(session: Session, order: int) -> None:
    ask = "SELECT pgcron.enqueue(:handler, args => CAST(:args AS jsonb), delivery => :delivery)"
    args = json.dumps({"order": order})
    session.execute(
        text(ask), {"handler": HANDLER, "args": args, "delivery": "transactional"}
    ).scalar_one()


def by_model(session: Session, order: int) -> None:
    session.add(Run(handler=HANDLER, args={"order": order}, delivery="transactional"))
    session.flush()


def by_client(session: Session, order: int) -> None:
    sql, parameters = app.enqueue_statement(
        HANDLER, {"order": order}, style="named", delivery="transactional"
    )
    session.execute(text(sql), parameters).scalar_one()


INTERFACES: Final[dict[str, Callable[[Session, int], None]]] = {
    "sql": by_sql,
    "model": by_model,
    "client": by_client,
}
POINTS: Final = ("the order is inserted", "its invoice is asked for", "both are committed")


def main(interface: str, count: int, point: str) -> None:
    engine = create_engine(os.environ["SHOP_URL"])
    for number in range(1, count + 1):
        last = point if number == count else ""
        with Session(engine) as session:
            order = Order(customer=f"{interface} {number}")
            session.add(order)
            session.flush()
            _reach(POINTS[0], last)
            INTERFACES[interface](session, order.id)
            _reach(POINTS[1], last)
            session.commit()
            _reach(POINTS[2], last)


def _reach(here: str, point: str) -> None:
    if here == point:
        os.kill(os.getpid(), signal.SIGKILL)


def all_at_once(count: int) -> set[int | None]:
    """How they ended; a process each, as they are killed, but what it imports is loaded once."""
    process = get_context("fork").Process
    counters = [
        process(target=main, args=(interface, count, point))
        for interface, point in product(INTERFACES, POINTS)
    ]
    for counter in counters:
        counter.start()
    for counter in counters:
        counter.join()
    return {counter.exitcode for counter in counters}


if __name__ == "__main__":
    print(*all_at_once(int(sys.argv[1])))
