"""``artifact unpack`` and ``artifact verify ARCHIVE`` as processes."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ASSETS = Path(__file__).parent.parent / "assets" / "archives"


@pytest.fixture(scope="module")
def make_tree():
    spec = importlib.util.spec_from_file_location("cli_unpack_tiny", ASSETS / "tiny.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make_tree


def run(*args: object, cwd: Path, **environment: str):
    return subprocess.run(
        [sys.executable, "-m", "artifact", *map(str, args)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(params=["tar.gz", "zip"])
def archive(request: pytest.FixtureRequest, tmp_path: Path, make_tree) -> Path:
    tree = make_tree(tmp_path / "tree")
    done = run("pack", "--format", request.param, "--output", tmp_path, "--json", cwd=tree)
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["archive"])


def test_tree_archive_and_unpacked_tree_print_one_content_id(archive: Path, tmp_path: Path) -> None:
    unpacked = run("unpack", archive, "--into", "new", "--json", cwd=tmp_path)
    assert unpacked.returncode == 0, unpacked.stderr
    answer = json.loads(unpacked.stdout)
    ids = {answer["content_id"]}
    for target in (tmp_path / "tree", archive, answer["path"] and tmp_path / answer["path"]):
        done = run("verify", target, "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stdout
        ids.add(json.loads(done.stdout)["content_id"])
    assert len(ids) == 1
    assert len(answer["checked"]) == 3


def test_words_and_exit_codes(archive: Path, tmp_path: Path) -> None:
    done = run("unpack", archive, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    last = done.stdout.splitlines()[-1]
    assert last.startswith("content id: blake3:")
    content_id = last.rpartition(" ")[2]
    again = run("unpack", archive, cwd=tmp_path)
    assert again.returncode == 2 and "exists already" in again.stderr
    good = run("unpack", archive, "--into", "b", "--expect-content-id", content_id, cwd=tmp_path)
    assert good.returncode == 0
    wrong = "blake3:" + "0" * 64
    bad = run("unpack", archive, "--into", "c", "--expect-content-id", wrong, cwd=tmp_path)
    assert bad.returncode == 1 and not (tmp_path / "c").exists()
    nonsense = run("unpack", archive, "--into", "c", "--expect-content-id", "xyz", cwd=tmp_path)
    assert nonsense.returncode == 2
    assert run("unpack", tmp_path / "nothing.zip", cwd=tmp_path).returncode == 1


def test_without_anything_beside_it_the_archive_is_only_consistent(
    archive: Path, tmp_path: Path
) -> None:
    for path in archive.parent.glob(f"{archive.name}.*"):
        path.unlink()
    done = run("unpack", archive, "--into", "b", cwd=tmp_path)
    assert done.returncode == 0 and "nothing ties it to its authors" in done.stderr


def test_one_flipped_byte_is_exit_1(archive: Path, tmp_path: Path) -> None:
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 1
    archive.write_bytes(data)
    for args in (("unpack", archive, "--into", "b"), ("verify", archive)):
        done = run(*args, cwd=tmp_path)
        assert done.returncode == 1 and "Traceback" not in done.stderr
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_no_tree(
    start_artifact, tmp_path: Path, make_tree, number: signal.Signals
) -> None:
    noise = random.Random(1).randbytes(1 << 21)
    tree = make_tree(tmp_path / "tree", {f"f{i}": noise + b"%d" % i for i in range(30)}, level=1)
    done = run("pack", "--format", "zip", "--output", tmp_path, cwd=tree)
    assert done.returncode == 0, done.stderr
    into = tmp_path / "into"
    into.mkdir()
    process = start_artifact("unpack", tmp_path / "tiny-sum.zip", "--into", into, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not any(into.glob(".*/tiny-sum/f*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(number)
    process.communicate(timeout=120)
    assert not (into / "tiny-sum").exists()
    if number == signal.SIGTERM:
        assert process.returncode == 130
        assert list(into.iterdir()) == []
    assert run("unpack", tmp_path / "tiny-sum.zip", "--into", into, cwd=tmp_path).returncode == 0
    assert (into / "tiny-sum/f29").exists()
