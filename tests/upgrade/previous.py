"""The package of the version before, kept as it was built: its nodes work beside those of this one.

``make previous-package`` builds it from the commit that is named here: the last one of its version.
With each release the next one takes its place.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from tests.house.checkout import ROOT

COMMIT: Final = "8f6c7c6df042a72224b10c9c12d1a8f3d26bdf9b"
VERSION: Final = "0.1.0"
REVISION: Final = "pgcron_0001"
"""The newest that it carries."""

WHEEL: Final = Path(__file__).with_name(f"pgcron_ha-{VERSION}-py3-none-any.whl")

_BUILD_SECONDS: Final = 120


def unpack(folder: Path) -> Path:
    """Make it a folder for PYTHONPATH: what an installation without dependencies would be."""
    with zipfile.ZipFile(WHEEL) as archive:
        archive.extractall(folder)
    return folder


def main() -> None:
    """Build it again; needs the history."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "previous.tar"
        _run("git", "archive", "--output", str(archive), COMMIT)
        checkout = Path(folder) / "checkout"
        checkout.mkdir()
        _run("tar", "--extract", "--file", str(archive), "--directory", str(checkout))
        # The same files whenever it is built: with the time of the commit.
        when = _run("git", "show", "--no-patch", "--format=%ct", COMMIT).strip()
        _run(
            *(sys.executable, "-m", "build", "--wheel", "--no-isolation"),
            *("--outdir", str(WHEEL.parent), str(checkout)),
            SOURCE_DATE_EPOCH=when,
        )
    print(f"{WHEEL.relative_to(ROOT)}: {WHEEL.stat().st_size:,} bytes")


def _run(*command: str, **variables: str) -> str:
    answer = subprocess.run(
        command,
        check=True,
        cwd=ROOT,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
        timeout=_BUILD_SECONDS,
    )
    return answer.stdout


if __name__ == "__main__":
    main()
