"""Runs one line of the matrix: spin makes a checker of a model, gcc compiles it, the checker looks
at every state.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODELS: Final = Path(__file__).parent

CLEAN: Final = "clean"

MEMORY_MB: Final = 3000
DEPTH: Final = 1_000_000
SECONDS: Final = 1800
"""One line may take so long; the longest needs a third of it on one core of a small machine."""

_NICENESS: Final = 10
_HASH_BITS: Final = 24
# Compiling with optimization takes as long as checking a few million states without it.
_SMALL: Final = "-O0"
_LARGE: Final = "-O1"
# Breadth first: the counterexample is the shortest there is.
_SHORTEST: Final = ("-DBFS",)


class CheckerFailed(Exception):
    """No verdict: a tool is missing, the model can't be read, or memory or time was not enough."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checker said. `found` is "clean" or the sentence of the broken promise, `steps` the
    counterexample.
    """

    found: str
    states: int
    seconds: float
    steps: tuple[str, ...]


def check(
    model: str,
    defines: Mapping[str, int | str],
    *,
    is_large: bool = False,
    wants_shortest: bool = True,
    text: str | None = None,
) -> Verdict:
    """Checks ``{model}.pml`` (or `text` in its place) under these defines.

    `is_large`: millions of states are expected. `wants_shortest`: breadth first, which costs more
    memory and finds the shortest counterexample. Raises CheckerFailed.
    """
    switches = [f"-D{name}={value}" for name, value in defines.items()]
    with tempfile.TemporaryDirectory(prefix="pgcron-ha-model-") as place:
        folder = Path(place)
        source = folder / "model.pml"
        source.write_text(text if text is not None else (MODELS / f"{model}.pml").read_text())
        made = _run(folder, ["spin", "-a", *switches, source.name])
        if not (folder / "pan.c").exists() or "Error" in made:
            raise CheckerFailed(f"spin can't read {model}.pml: {made.strip()[:500]}")
        how = [_LARGE if is_large else _SMALL, *(_SHORTEST if wants_shortest else ())]
        limits = (f"-DMEMLIM={MEMORY_MB}", "-DVECTORSZ=2048")
        command = ["gcc", *how, "-w", "-DSAFETY", "-DCOLLAPSE", *limits, "-o", "pan", "pan.c"]
        compiled = _run(folder, command)
        if not (folder / "pan").exists():
            raise CheckerFailed(f"gcc can't compile the checker: {compiled.strip()[:500]}")
        said = _run(folder, ["./pan", f"-m{DEPTH}", f"-w{_HASH_BITS}"])
        steps: tuple[str, ...] = ()
        if (folder / "model.pml.trail").exists():
            steps = _steps(_run(folder, ["spin", "-t", *switches, source.name]))
        return _verdict(said, steps)


def _run(folder: Path, command: list[str]) -> str:
    if not command[0].startswith("./") and shutil.which(command[0]) is None:
        raise CheckerFailed(f"{command[0]} is not installed (Debian: apt-get install spin gcc)")
    polite = ["nice", "-n", str(_NICENESS), *command]
    try:
        ran = subprocess.run(polite, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise CheckerFailed(f"{command[0]} did not end within {SECONDS} s") from None
    return ran.stdout + ran.stderr


def _verdict(said: str, steps: tuple[str, ...]) -> Verdict:
    for trouble in ("memory", "max search depth too small", "hash-table"):
        if re.search(rf"(reached|out of|error: ?).*{trouble}", said):
            raise CheckerFailed(f"not every state was looked at: {trouble}")
    errors = re.search(r"errors: (\d+)", said)
    states = re.search(r"(\d+) states, stored", said)
    elapsed = re.search(r"elapsed time ([\d.]+)", said)
    if errors is None or states is None or elapsed is None:
        raise CheckerFailed(f"the checker ended without a verdict: {said.strip()[-500:]}")
    found = CLEAN
    if int(errors[1]):
        broken = [step.removeprefix("BROKEN: ") for step in steps if step.startswith("BROKEN")]
        # An assertion of the model itself: what it takes for granted is not so.
        violated = re.search(r"pan:\d+: ([^\n]*)", said)
        found = broken[0] if broken else (violated[1] if violated else "no sentence")
    return Verdict(found, int(states[1]), float(elapsed[1]), steps)


def _steps(simulated: str) -> tuple[str, ...]:
    """What the model printed on the way to the broken promise."""
    lines = [" ".join(line.split()) for line in simulated.splitlines()]
    # Written within the same tick of a clock, a model may look newer than its trail.
    lines = [line for line in lines if not line.startswith("spin: warning")]
    ends = [number for number, line in enumerate(lines) if line.startswith("spin:")]
    kept = lines[: ends[0]] if ends else lines
    return tuple(line for line in kept if line and not line.startswith("<"))
