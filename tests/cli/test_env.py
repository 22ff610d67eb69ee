from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def root(tiny: ModuleType, tmp_path: Path) -> Path:
    path, digest = tiny.wheel(tmp_path / "wheels", "foo", "1.0")
    tiny.venv(tmp_path / "v", path)
    return tiny.artifact(tmp_path / "tree", tiny.lock_line("foo", "1.0", digest))


def artifact(root: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "artifact", "env", *map(str, arguments)],
        cwd=root,
        env={**os.environ, "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_check_says_equal(root: Path, tmp_path: Path) -> None:
    python = tmp_path / "v/bin/python"
    done = artifact(root, "check", "tiny", "--python", python)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout == "tiny: equal to its lock (envs/tiny/requirements.lock; 3 files compared)\n"
    )
    done = artifact(root, "check", "tiny", "--python", python, "--fast", "--quiet")
    assert done.stdout.endswith("(envs/tiny/requirements.lock; files not compared)\n")
    document = json.loads(artifact(root, "check", "tiny", "--python", python, "--json").stdout)
    assert document["equal"] is True
    assert (document["files_checked"], document["differences"]) == (3, [])


def test_check_lists_every_difference(root: Path, tmp_path: Path, tiny: ModuleType) -> None:
    site = tiny.site(tmp_path / "v")
    (site / "foo/__init__.py").write_text("")
    shutil.unpack_archive(tiny.wheel(tmp_path / "wheels", "bar", "2")[0], site, "zip")
    done = artifact(root, "check", "tiny", "--python", tmp_path / "v/bin/python")
    assert done.returncode == 3 and done.stdout == ""
    assert "found:    2 differences" in done.stderr
    assert "\n  - foo: found foo/__init__.py, which was changed after it was" in done.stderr
    assert "\n  - bar: expected nothing, found 2 (provides bar)" in done.stderr
    assert "artifact env create tiny" in done.stderr
    done = artifact(root, "check", "tiny", "--python", tmp_path / "v/bin/python", "--json")
    assert done.returncode == 3 and done.stderr == ""
    document = json.loads(done.stdout)
    assert [item["kind"] for item in document["differences"]] == ["file", "extra"]
    assert document["equal"] is False


def test_check_of_what_is_no_interpreter(root: Path) -> None:
    done = artifact(root, "check", "tiny", "--python", "/bin/true")
    assert done.returncode == 3
    assert done.stderr.startswith("error: an interpreter could not say what it holds\n")
    done = artifact(root, "check", "tiny", "--python", "/bin/true", "--json")
    assert json.loads(done.stdout)["exit_code"] == 3


def test_a_bad_lock_is_a_failed_verification(root: Path, tmp_path: Path) -> None:
    (root / "envs/tiny/requirements.lock").write_text("foo==1.0\n")
    done = artifact(root, "check", "tiny", "--python", tmp_path / "v/bin/python")
    assert done.returncode == 1
    assert "requirements.lock:1" in done.stderr


@pytest.mark.parametrize("command", ["check", "create", "lock"])
def test_an_unknown_name_lists_the_known_ones(root: Path, command: str) -> None:
    more = ["--python", sys.executable] if command == "check" else []
    done = artifact(root, command, "nope", *more)
    assert done.returncode == 2
    assert "expected: one of: tiny, bare" in done.stderr


def test_options_that_do_not_go_together(root: Path) -> None:
    for arguments in (
        ("create", "tiny", "--python", sys.executable, "--channel-url", "file:///x"),
        ("lock", "tiny", "--only", "wheels", "--channel-url", "file:///x"),
        ("check", "tiny"),
        ("lock", "tiny", "--only", "nothing"),
    ):
        assert artifact(root, *arguments).returncode == 2, arguments


def test_create_then_check(root: Path, tmp_path: Path) -> None:
    done = artifact(root, "create", "tiny", PIP_FIND_LINKS=str(tmp_path / "wheels"))
    python = root / "build/envs/tiny/bin/python"
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["tiny: made and equal to its lock", str(python)]
    assert "foo-1.0" in done.stderr
    assert artifact(root, "check", "tiny", "--python", python).returncode == 0
    done = artifact(root, "create", "tiny", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["found"] == "a directory that is not empty"


def test_lock_prints_what_changed(root: Path, tmp_path: Path, tiny: ModuleType) -> None:
    tiny.wheel(tmp_path / "wheels", "foo", "2.0")
    (root / "envs/tiny/environment.yml").write_text(
        f"channels: [conda-forge]\ndependencies: [python={tiny.PYTHON}, {{pip: [foo==2.0]}}]\n"
    )
    variables = {
        "UV_FIND_LINKS": str(tmp_path / "wheels"),
        "UV_NO_INDEX": "1",
        "UV_NO_CONFIG": "1",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = artifact(root, "lock", "tiny", "--only", "wheels", **variables)
    assert (done.returncode, done.stdout) == (0, "wheels: ~ foo 1.0 -> 2.0\n"), done.stderr
    done = artifact(root, "lock", "tiny", "--only", "wheels", "--json", **variables)
    assert json.loads(done.stdout) == {"environment": "tiny", "changes": []}


def test_help_has_examples(root: Path) -> None:
    for command in ("check", "create", "lock"):
        done = artifact(root, command, "--help")
        assert done.returncode == 0 and f"artifact env {command} main" in " ".join(
            done.stdout.split()
        )
