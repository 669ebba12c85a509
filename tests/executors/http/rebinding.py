"""A name that is at another address with each question, as its owner likes."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import uvloop

NAME = "rebinding.test"


class Resolver:
    """Stands where the system's is asked: the questions for one name get these answers in turn, and
    the last one stays. All else is asked of the system.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *answers: list[str], name: str = NAME
    ) -> None:
        self.asked = 0
        self._answers = list(answers)
        self._name = name
        self._of_the_system = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._answer)

        async def of_a_loop(_: uvloop.Loop, host: Any, port: Any, **more: Any) -> Any:
            return self._answer(host, port, **more)

        # The loop of executors has a resolver of its own.
        monkeypatch.setattr(uvloop.Loop, "getaddrinfo", of_a_loop)

    def _answer(self, host: Any, port: Any, *more: Any, **named: Any) -> list[Any]:
        given = [host]
        if host in (self._name, self._name.encode()):
            self.asked += 1
            given = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [each for one in given for each in self._of_the_system(one, port, *more, **named)]
