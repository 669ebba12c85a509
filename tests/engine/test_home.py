from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pgcron_ha.errors import ConfigError
from tests.product.engine import Home
from tests.product.engine import state_directory as home
from tests.waiting import wait_for

# Takes the folder's lock, gives it to a child, and waits to be killed; the child lives until its
# input ends.
OWNER = """
import subprocess, sys
from pathlib import Path
from pgcron_ha.engine.lease.state_directory import Home
home = Home(Path(sys.argv[1]), "n1")
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"],
                         stdin=sys.stdin, pass_fds=[home.descriptor])
print("locked", flush=True)
child.wait()
"""


def test_a_node_has_a_private_folder_that_names_its_owner(tmp_path: Path) -> None:
    home = Home(tmp_path / "state", "n1")

    assert home.directory == tmp_path / "state" / "n1"
    assert home.directory.stat().st_mode & 0o077 == 0
    assert (home.directory / "lock").read_text() == str(os.getpid())
    home.release()


def test_a_second_node_of_one_name_gets_a_folder_of_its_own_and_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, third = (Home(tmp_path, "n1") for _ in range(3))

    assert [each.directory.name for each in (first, second, third)] == ["n1", "n1.2", "n1.3"]
    assert len({each.identity for each in (first, second, third)}) == 3
    assert [
        str(each.directory) in record.message
        for each, record in zip((second, third), caplog.records, strict=True)
    ] == [True, True]
    for each in (first, second, third):
        each.release()


def test_the_identity_stays_with_the_folder_and_not_with_a_new_one(tmp_path: Path) -> None:
    first = Home(tmp_path, "n1")
    first.release()
    again = Home(tmp_path, "n1")
    again.release()
    assert again.identity == first.identity

    shutil.rmtree(tmp_path / "n1")
    anew = Home(tmp_path, "n1")

    assert anew.identity != first.identity
    anew.release()


def test_a_folder_that_is_free_again_is_taken_again(tmp_path: Path) -> None:
    Home(tmp_path, "n1").release()

    home = Home(tmp_path, "n1")

    assert home.directory == tmp_path / "n1"
    home.release()


def test_a_dead_predecessor_is_waited_for_until_its_children_are_gone(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    assert owner.stdin is not None
    assert owner.stdout.readline() == "locked\n"
    owner.kill()
    owner.wait()
    successor = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            "import sys\nfrom pathlib import Path\n"
            "from pgcron_ha.engine.lease.state_directory import Home\n"
            "print('looking', flush=True); print(Home(Path(sys.argv[1]), 'n1').directory.name)",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert successor.stdout is not None
    assert successor.stdout.readline() == "looking\n"
    assert successor.poll() is None

    owner.stdin.close()

    wait_for("the successor has the folder", lambda: successor.poll() is not None)
    assert successor.stdout.read() == "n1\n"
    owner.stdout.close()
    successor.stdout.close()


def test_a_folder_that_can_not_be_made_is_said_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(ConfigError) as refused:
        Home(tmp_path / "file", "n1")

    assert "STATE_DIRECTORY" in (refused.value.hint or "")


def test_a_copy_of_a_machine_has_a_lock_and_an_identity_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    first = Home(tmp_path / "machine" / "state", "n1")
    shutil.copytree(tmp_path / "machine", tmp_path / "image")
    (tmp_path / "machine").rename(tmp_path / "elsewhere")  # as in a mount namespace of its own
    (tmp_path / "image").rename(tmp_path / "machine")

    clone = Home(tmp_path / "machine" / "state", "n1")

    assert clone.directory == first.directory
    assert clone.identity != first.identity
    first.release()
    clone.release()


def test_another_start_of_the_machine_is_another_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Home(tmp_path, "n1")
    first.release()
    monkeypatch.setattr(home, "_kernel", lambda: "another boot")

    again = Home(tmp_path, "n1")

    assert again.identity != first.identity
    again.release()
