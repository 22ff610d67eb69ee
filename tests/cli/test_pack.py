"""``artifact pack`` as a process: bytes under other circumstances, signals, exit codes."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from artifact.integrity.seal import sealed

ASSETS = Path(__file__).parent.parent / "assets" / "archives"


@pytest.fixture(scope="module")
def make_tree():
    spec = importlib.util.spec_from_file_location("cli_pack_tiny", ASSETS / "tiny.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make_tree


@pytest.fixture
def tree(tmp_path: Path, make_tree) -> Path:
    return make_tree(tmp_path / "tree")


def run(*args: object, cwd: Path, umask: int = -1, **environment: str):
    return subprocess.run(
        [sys.executable, "-m", "artifact", *map(str, args)],
        cwd=cwd,
        env={**os.environ, **environment},
        umask=umask,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.parametrize("form", ["tar.gz", "zip"])
def test_the_same_bytes_whatever_surrounds_it(tree: Path, tmp_path: Path, form: str) -> None:
    copy = tmp_path / "copy"
    files = [p.relative_to(tree) for p in tree.rglob("*") if p.is_file()]
    random.Random(2).shuffle(files)
    for file in files:
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tree / file, copy / file)
        os.utime(copy / file, (86400, 86401))
    first = run("pack", "--format", form, "--json", cwd=tree, umask=0o022, TZ="UTC", LC_ALL="C")
    second = run(
        "pack", "--format", form, "--output", tmp_path / f"other.{form}", "--json",
        cwd=copy / "data", umask=0o077, TZ="America/St_Johns", LC_ALL="de_DE.UTF-8",
        PYTHONHASHSEED="7",
    )  # fmt: skip
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    answers = [json.loads(done.stdout) for done in (first, second)]
    archives = [Path(answer["archive"]) for answer in answers]
    assert archives[0].read_bytes() == archives[1].read_bytes()
    assert archives[0].name != archives[1].name
    for key in ("sha256", "blake3", "content_id", "size", "files"):
        assert answers[0][key] == answers[1][key]
    assert answers[0]["canonical"] is True
    assert [Path(p).exists() for p in answers[0]["written"]] == [True] * 4


def test_words(tree: Path) -> None:
    done = run("pack", "--format", "tar.gz", cwd=tree)
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("archive:") and lines[-1].startswith("content id: blake3:")
    assert run("pack", "--format", "zip", "--quiet", cwd=tree).stdout.splitlines() == lines[-1:]


def test_every_way_to_fail_has_its_exit_code(tree: Path) -> None:
    assert run("pack", cwd=tree).returncode == 2
    assert run("pack", "--format", "rar", cwd=tree).returncode == 2
    assert run("pack", "--format", "zip", cwd=tree.parent).returncode == 2
    assert run("pack", "--format", "zip", cwd=tree).returncode == 0
    again = run("pack", "--format", "zip", "--json", cwd=tree)
    assert again.returncode == 2
    assert "--overwrite" in json.loads(again.stdout)["next"]
    assert run("pack", "--format", "zip", "--overwrite", cwd=tree).returncode == 0
    lock = tree / "manifests/lock.json"
    good = lock.read_bytes()
    found = json.loads(good)["deflate"]["runtime_version"]
    lock.write_bytes(sealed(good.replace(f'"{found}"'.encode(), b'"0.0"')))
    other = run("pack", "--format", "tar.gz", cwd=tree)
    assert other.returncode == 3
    assert "0.0" in other.stderr and "--non-canonical" in other.stderr
    marked = run("pack", "--format", "tar.gz", "--non-canonical", cwd=tree)
    assert marked.returncode == 0 and "NOT CANONICAL" in marked.stderr
    lock.write_bytes(good)
    (tree / "worker.py").write_bytes(b"")
    red = run("pack", "--format", "zip", "--overwrite", cwd=tree)
    assert red.returncode == 1 and "worker.py" in red.stderr
    missing = run("pack", "--format", "zip", "--output", "no/such/x.zip", cwd=tree.parent, HOME="/")
    assert missing.returncode == 2


def test_a_read_only_place_is_exit_3(tree: Path) -> None:
    done = run("pack", "--format", "zip", "--output", "/proc/x.zip", cwd=tree)
    assert done.returncode == 3
    assert "nothing was left behind" in done.stderr


@pytest.fixture
def large(tmp_path: Path, make_tree) -> Path:
    """A tree that takes seconds to pack."""
    text = random.Random(1).randbytes(1 << 20).hex().encode()
    return make_tree(tmp_path / "large", {f"f{i}": text + b"%d" % i for i in range(16)}, level=9)


def _interrupt(start_artifact, tree: Path, number: signal.Signals) -> tuple[int, str]:
    """Start a pack, wait until it writes, and send it a signal."""
    process = start_artifact("pack", "--format", "tar.gz", cwd=tree)
    deadline = time.monotonic() + 60
    dist = tree / "dist"
    while not (dist.exists() and any(p.stat().st_size > 1 << 18 for p in dist.iterdir())):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    return process.returncode, err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_nothing(start_artifact, large: Path, number: signal.Signals) -> None:
    code, err = _interrupt(start_artifact, large, number)
    assert code == 130
    assert "Traceback" not in err
    if number == signal.SIGTERM:
        assert "SIGTERM" in err
    assert not (large / "dist").exists()


def test_a_kill_leaves_nothing_under_the_final_name(start_artifact, large: Path) -> None:
    code, _ = _interrupt(start_artifact, large, signal.SIGKILL)
    assert code == -signal.SIGKILL
    left = [p.name for p in (large / "dist").iterdir()]
    assert left and all(name.startswith(".") and name.endswith(".partial") for name in left)
    again = run("pack", "--format", "tar.gz", "--json", cwd=large)
    assert again.returncode == 0, again.stderr
    assert run("verify", json.loads(again.stdout)["archive"], cwd=large.parent).returncode == 0
