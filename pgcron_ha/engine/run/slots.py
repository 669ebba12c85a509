"""The slots of a node: how many its executing runs take, and the runs that wait for several.

All of it may be called from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from pgcron_ha.executors.contract.base import Context


class Slots:
    """A run takes one slot, or as many as its weight. One that waits for several keeps what came
    after it from taking any.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.used = 0
        self._lock = threading.Lock()
        self.heavy: dict[Context, int] = {}
        """The weights of the runs that wait for several slots, in the order of their waiting."""
        self._surplus: dict[Context, int] = {}  # slots of executing runs beyond the first

    def wait(self, context: Context, weight: int) -> None:
        """It begins when so many slots are free and all that waited before have begun."""
        with self._lock:
            self.heavy[context] = weight

    def take(self) -> bool:
        """One slot; False when none is free."""
        with self._lock:
            if is_free := self.used < self.number:
                self.used += 1
            return is_free

    def take_heavy(self, unless: Callable[[Context], bool] | None = None) -> Context | None:
        """The next run that waits for several slots, which it has now; None when they are not free
        or it is one of those that the caller can't begin.
        """
        with self._lock:
            if not self.heavy:
                return None
            context, weight = next(iter(self.heavy.items()))
            if self.number - self.used < weight or (unless and unless(context)):
                return None
            del self.heavy[context]
            self.used += weight
            self._surplus[context] = weight - 1
            return context

    def free(self) -> None:
        """One slot is free again."""
        with self._lock:
            self.used -= 1

    def free_surplus(self, context: Context) -> bool:
        """Those that the run has beyond its first; False when it has none."""
        if not self._surplus or not (surplus := self._surplus.pop(context, 0)):
            return False
        with self._lock:
            self.used -= surplus
        return True

    def wait_again(self, context: Context) -> None:
        """This run can't begin now: it gives its slots back, and waits for as many."""
        with self._lock:
            self.heavy[context] = weight = self._surplus.pop(context, 0) + 1
            self.used -= weight

    def remove(self, context: Context) -> bool:
        """This run waits no more; False when it did not."""
        with self._lock:
            return self.heavy.pop(context, None) is not None
