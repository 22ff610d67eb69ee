"""Checks of the artifact itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable

import pytest

from artifact.doctor import contents
from artifact.doctor.base import Subject

Make = Callable[..., Subject]


def test_a_tree_as_pinned(subject: Make) -> None:
    found = contents.tree(subject())
    assert found.verdict == "ok"
    assert found.found.endswith("files as pinned (BLAKE3)")


def test_a_changed_tree_names_its_files(subject: Make) -> None:
    looked = subject()
    (looked.root / "workers/fake.py").write_text("")
    for name in ("a", "b", "c"):
        (looked.root / name).touch()
    found = contents.tree(looked)
    assert (found.verdict, found.found) == ("bad", "not as pinned: a, b, c and 1 more")
    assert found.mend[0] == "artifact verify"


def test_a_tree_without_a_lock(subject: Make) -> None:
    looked = subject()
    (looked.root / "manifests/lock.json").unlink()
    found = contents.tree(looked)
    assert found.verdict == "bad" and found.mend == ("artifact lock",)


def test_a_workload_without_backends(subject: Make) -> None:
    assert (
        contents.workload(subject("tiny")).found == "tiny: 2 backends, 2 shapes, on the processor"
    )
    found = contents.workload(subject("big"))
    assert (found.verdict, found.mend) == ("bad", ("artifact doctor --workload tiny",))


def test_runs_that_did_not_come_to_their_end(subject: Make) -> None:
    looked = subject()
    assert contents.run_folders(looked).verdict == "ok"
    for name, text in (
        ("r1", '{"complete": true}'),
        ("r2", '{"complete": false}'),
        ("r3", "{"),
        ("r4", "[]"),
    ):
        folder = looked.results / name
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(text)
    found = contents.run_folders(looked)
    assert found.found == "incomplete: r2; not readable: r3, r4"
    assert found.verdict == "warn"
    assert found.mend[0] == f"artifact verify {looked.results / 'r2'}"


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_settings_of_git_that_change_bytes(subject: Make) -> None:
    environ = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
    looked = subject(environ=environ)
    assert "no git checkout" in contents.checkout(looked).found

    def git(*arguments: str) -> None:
        command = ["git", "-C", looked.root, *arguments]
        subprocess.run(command, check=True, env={**os.environ, **environ})

    git("init", "-q")
    assert contents.checkout(looked).verdict == "ok"
    # On the way into the repository alone: what is checked out stays as it is.
    git("config", "core.autocrlf", "input")
    assert contents.checkout(looked).verdict == "ok"
    git("config", "core.autocrlf", "true")
    git("config", "core.filemode", "false")
    found = contents.checkout(looked)
    assert found.verdict == "warn"
    assert found.found == "core.autocrlf=true, core.fileMode=false loses executable bits"
    assert found.mend[0] == "git config core.autocrlf false"
    # With this attribute the setting changes nothing.
    git("config", "core.filemode", "true")
    (looked.root / ".gitattributes").write_text("* -text\n")
    assert contents.checkout(looked).verdict == "ok"


def test_a_checkout_without_git(subject: Make) -> None:
    looked = subject(environ={"PATH": "/nowhere"})
    (looked.root / ".git").mkdir()
    assert contents.checkout(looked).verdict == "warn"
