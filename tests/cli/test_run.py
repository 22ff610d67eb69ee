"""``artifact run`` as a process: its output, its exit codes, and every way to end it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from artifact.bench.check import verify_run
from artifact.errors import ExitCode
from artifact.integrity.lockfile import write_lock
from artifact.integrity.tree import Tree
from artifact.integrity.verify import verify
from artifact.model.load import check_schema
from artifact.model.root import MANIFEST

Start = Callable[..., "subprocess.Popen[str]"]

PHASES = ["verify", "prepare", "gates", "timing", "report"]


def read_results(folder: Path) -> dict[str, Any]:
    """results.json of a run folder: whatever ended the run, it is a whole document."""
    document: dict[str, Any] = json.loads((folder / "results.json").read_bytes())
    check_schema("results", document, "x")
    return document


def runs(root: Path) -> list[Path]:
    return sorted((root / "results").glob("*"))


def workers_of(root: Path) -> list[int]:
    """Processes that run a worker below ``root``."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and os.fsencode(root / "workers") in (
                (entry / "cmdline").read_bytes()
            ):
                found.append(int(entry.name))
    return found


def wait_for(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.002)


def phase_of(root: Path) -> str | None:
    for folder in runs(root):
        with contextlib.suppress(OSError):
            phase: str = json.loads((folder / "results.json").read_bytes())["state"]["phase"]
            return phase
    return None


@pytest.fixture
def slow_artifact(fake_artifact: Path) -> Path:
    """An artifact that takes a moment to verify."""
    with (fake_artifact / "sparse.bin").open("wb") as file:
        file.truncate(200 << 20)
    write_lock(fake_artifact)
    return fake_artifact


SLOW = ("--worker-env", "alpha:DELAY=0.1", "--worker-env", "beta:DELAY=0.1")


def test_a_run_from_beginning_to_end(fake_artifact: Path, start_artifact: Start) -> None:
    process = start_artifact("run", cwd=fake_artifact / "workers")
    out, err = process.communicate()
    assert process.returncode == 0, err
    (folder,) = runs(fake_artifact)
    lines = out.splitlines()
    head = lines.index("Median milliseconds / GFLOPS")
    assert lines[head + 1].split()[:2] == ["Implementation", "N=8"]
    assert "Protocol quick" in out
    assert f"run:        ../results/{folder.name}" in lines
    assert lines[-1] == f"next:       artifact verify ../results/{folder.name}"
    assert "[timing] 1/18 alpha, N=8, round 1" in err
    assert verify_run(folder).findings == ()
    assert verify(Tree(fake_artifact)).findings == ()
    assert workers_of(fake_artifact) == []


def test_json_is_one_document(fake_artifact: Path, start_artifact: Start) -> None:
    process = start_artifact(
        "run", "--json", "--workload", "demo", "--backends", "alpha", "--rounds", "2",
        cwd=fake_artifact,
    )  # fmt: skip
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    document = json.loads(out)
    (folder,) = runs(fake_artifact)
    assert document["folder"] == f"results/{folder.name}"
    assert document["complete"] is True
    assert document["marks"] == ["NOT COMPARABLE", "CUSTOM PROTOCOL"]
    assert document["protocol"] == "quick+custom"
    assert [row["samples"] for row in document["summary"]] == [2]
    assert document["content_id"].startswith("blake3:")


def test_quiet_prints_the_run_alone(fake_artifact: Path, start_artifact: Start) -> None:
    process = start_artifact("run", "-q", "--rounds", "1", cwd=fake_artifact)
    out, err = process.communicate()
    (folder,) = runs(fake_artifact)
    assert (out, err) == (f"run:        results/{folder.name}\n", "")


def test_a_read_only_checkout_with_results_elsewhere(
    fake_artifact: Path, start_artifact: Start, tmp_path: Path
) -> None:
    mount = None
    for path in [fake_artifact, *fake_artifact.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        if os.geteuid() == 0:
            mount = read_only(fake_artifact)
        process = start_artifact("run", cwd=fake_artifact)
        _, err = process.communicate()
        assert process.returncode == ExitCode.ENVIRONMENT
        assert "--results-dir DIR" in err
        process = start_artifact("run", "-q", "--results-dir", tmp_path / "out", cwd=fake_artifact)
        _, err = process.communicate()
        assert process.returncode == 0, err
    finally:
        if mount is not None:
            subprocess.run(["umount", mount], check=True)
        for path in [fake_artifact, *fake_artifact.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)
    (folder,) = (tmp_path / "out").iterdir()
    assert verify_run(folder).findings == ()
    assert os.fsencode(tmp_path) not in (folder / "results.json").read_bytes()
    assert not (fake_artifact / "results").exists()


def read_only(folder: Path) -> Path:
    """Permissions do not bind root, a read-only mount does."""
    done = subprocess.run(["mount", "--bind", folder, folder], capture_output=True)
    if done.returncode != 0:
        pytest.skip("root here may not mount")
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    return folder


USAGE = [
    (("--workload", "x"), "one of: tiny, demo, big"),
    (("--backends", "x"), "some of: alpha, beta, gamma"),
    (("--backends", ","), "some of: alpha, beta, gamma"),
    (("--python", "x"), "one of: --ws-python"),
    (("--interpreter", "x"), "one of: other"),
    (("--interpreter", "x=p"), "one of: other"),
    (("--interpreter", "other=p", "--interpreter", "other=q"), "p and q"),
    (("--interpreter", "other=p", "--ws-python", "q"), "q and p"),
    (("--worker-env", "x"), "BACKEND:NAME=VALUE"),
    (("--gpu", "0"), "--workload tiny"),
    (("--order", "random"), "interleaved"),
    (("--rounds", "0"), "--rounds"),
    (("--rounds", "many"), "--rounds"),
]


@pytest.mark.parametrize(("args", "said"), USAGE, ids=[" ".join(args) for args, _ in USAGE])
def test_usage_errors_leave_nothing(
    fake_artifact: Path, start_artifact: Start, args: tuple[str, ...], said: str
) -> None:
    process = start_artifact("run", *args, cwd=fake_artifact)
    _, err = process.communicate()
    assert process.returncode == ExitCode.USAGE
    assert said in err
    assert runs(fake_artifact) == []


def test_without_a_gpu_it_says_what_to_do_and_does_nothing(
    fake_artifact: Path, start_artifact: Start, tmp_path: Path
) -> None:
    # A module of this name that cannot be imported stands for a machine without the library.
    (tmp_path / "pynvml.py").write_text("raise ImportError('no pynvml here')\n")
    process = start_artifact(
        "run", "--workload", "big", cwd=fake_artifact, PYTHONPATH=str(tmp_path)
    )
    out, err = process.communicate()
    assert process.returncode == ExitCode.ENVIRONMENT
    assert "no pynvml here" in err
    assert "artifact run --workload tiny" in err
    assert (out, runs(fake_artifact)) == ("", [])


def test_an_error_names_backend_phase_log_and_next_command(
    fake_artifact: Path, start_artifact: Start
) -> None:
    args = ("run", "--worker-env", "beta:FAULT=out_of_memory@prepare")
    process = start_artifact(*args, cwd=fake_artifact)
    _, err = process.communicate()
    assert process.returncode == ExitCode.ENVIRONMENT
    (folder,) = runs(fake_artifact)
    log = f"results/{folder.name}/logs/beta.log"
    assert "error: beta: the memory does not suffice: no luck with prepare" in err
    assert "backend beta, phase prepare, shape N=8" in err
    assert f"raw log: {log}" in err
    assert f"read {log}; then: artifact {' '.join(args)}" in err


def test_an_error_as_json(fake_artifact: Path, start_artifact: Start) -> None:
    process = start_artifact(
        "run", "--json", "--worker-env", "beta:FAULT=backend@check", cwd=fake_artifact
    )
    out, err = process.communicate()
    assert (process.returncode, err) == (ExitCode.FALLBACK, "")
    document = json.loads(out)
    assert (document["error"], document["exit_code"]) == ("WrongBackend", 6)


def test_a_tree_that_is_not_as_locked_is_said_on_screen_and_on_disk(
    fake_artifact: Path, start_artifact: Start, tmp_path: Path
) -> None:
    (fake_artifact / "surplus").touch()
    (fake_artifact / MANIFEST).chmod(0o755)
    process = start_artifact("run", "--root", str(fake_artifact), cwd=tmp_path)
    _, err = process.communicate()
    assert process.returncode == ExitCode.VERIFICATION
    (folder,) = runs(fake_artifact)
    error = read_results(folder)["state"]["error"]
    assert error["found"].startswith("2 findings, of which the first: ")
    assert error["next"] == "artifact verify --root $ROOT"
    assert len(error["details"]) == 2 and "surplus" in str(error["details"])
    assert f"next:     artifact verify --root {fake_artifact}\n" in err
    assert all(f"  - {detail}\n" in err for detail in error["details"])
    process = start_artifact("verify", str(folder), cwd=tmp_path)
    out, _ = process.communicate()
    assert "2 findings, of which the first: " in out
    assert "not as it says: 1 finding\n" in out


SIGNALS = [(phase, s) for phase in PHASES for s in (signal.SIGTERM, signal.SIGKILL)]
SIGNALS.append(("timing", signal.SIGINT))


@pytest.mark.parametrize(("phase", "signum"), SIGNALS, ids=[f"{p}-{s.name}" for p, s in SIGNALS])
def test_a_signal_in_each_phase(
    request: pytest.FixtureRequest, start_artifact: Start, phase: str, signum: signal.Signals
) -> None:
    root = request.getfixturevalue("slow_artifact" if phase == "verify" else "fake_artifact")
    slow = SLOW if phase in ("prepare", "gates", "timing") else ()
    process = start_artifact("run", "--rounds", "1", *slow, cwd=root)
    wait_for(lambda: phase_of(root) == phase, process)
    if phase in ("prepare", "gates", "timing"):
        wait_for(lambda: workers_of(root), process)
    process.send_signal(signum)
    _, err = process.communicate(timeout=120)
    (folder,) = runs(root)
    document = read_results(folder)
    assert document["complete"] is False
    assert document["state"]["phase"] == phase
    end = time.monotonic() + 60
    while workers_of(root):
        assert time.monotonic() < end, "a worker was left behind"
        time.sleep(0.01)
    if signum == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
        assert document["state"]["error"] is None
    else:
        assert process.returncode == ExitCode.INTERRUPTED, err
        assert document["state"]["error"]["found"] == signum.name
        assert "error: the run was interrupted" in err
        assert "next:     artifact run --rounds 1" in err
        assert not list(folder.glob("summary.*"))
    assert len(verify_run(folder).findings) >= 1


def test_a_hang_up_ends_a_run_as_well(fake_artifact: Path, start_artifact: Start) -> None:
    process = start_artifact("run", *SLOW, cwd=fake_artifact)
    wait_for(lambda: phase_of(fake_artifact) == "gates", process)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=120)
    assert process.returncode == ExitCode.INTERRUPTED
    assert workers_of(fake_artifact) == []


def test_two_runs_at_once(fake_artifact: Path, start_artifact: Start) -> None:
    first = start_artifact("run", "-q", "--rounds", "1", *SLOW, cwd=fake_artifact)
    wait_for(lambda: phase_of(fake_artifact) is not None, first)
    second = start_artifact("run", cwd=fake_artifact)
    _, err = second.communicate()
    assert second.returncode == ExitCode.ENVIRONMENT
    assert "another run uses the device 'cpu'" in err
    assert f"pid {first.pid}, workload tiny" in err
    _, err = first.communicate()
    assert first.returncode == 0, err
    # The second one made no folder, and did not touch the first one's.
    (folder,) = runs(fake_artifact)
    assert verify_run(folder).findings == ()


@contextlib.contextmanager
def small_disk(place: Path, size: str = "2m") -> Iterator[Path]:
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True
    )
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def fill(path: Path, leave: int) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
        file.truncate(max(0, file.tell() - leave))


DISK: list[tuple[str, int | None, str | None]] = [
    # phase in which the disk is full, bytes free before the run, fault of the second worker
    ("before", 0, None),
    ("verify", 4096, None),
    ("prepare", None, "fill@hello"),
    ("gates", None, "fill@check"),
    ("timing", None, "fill@time"),
    ("report", 150_000, None),
]


@pytest.mark.parametrize(("phase", "leave", "fault"), DISK, ids=[name for name, *_ in DISK])
def test_a_full_disk(
    fake_artifact: Path,
    start_artifact: Start,
    tmp_path: Path,
    phase: str,
    leave: int | None,
    fault: str | None,
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        args: list[str | Path] = ["run", "--results-dir", disk / "out"]
        if fault is not None:
            args += [
                "--worker-env", f"beta:FAULT={fault}", "--worker-env", f"beta:FILL={disk}/filling",
            ]  # fmt: skip
        if leave is not None:
            fill(disk / "filling", leave)
        process = start_artifact(*args, cwd=fake_artifact)
        _, err = process.communicate(timeout=120)
        assert process.returncode == ExitCode.ENVIRONMENT, err
        assert "error:" in err
        assert "Traceback" not in err
        folders = list((disk / "out").glob("*")) if (disk / "out").is_dir() else []
        left = [path for path in disk.rglob("*") if path.name.endswith(".partial")]
        assert left == []
        if phase == "before":
            assert folders == []
        else:
            (folder,) = folders
            document = read_results(folder)
            assert document["complete"] is False
            assert {p.name for p in folder.iterdir()} <= {"results.json", "lock.json", "logs"}
            reached = document["state"]["phase"]
            assert PHASES.index(reached) <= PHASES.index(phase)
            if phase == "report":
                # Room was made by removing half-written pages, so the reason could be kept.
                assert reached == "report"
                assert len(document["samples"]) == 18
                assert document["state"]["error"]["error"] == "EnvironmentUnmet"
        assert workers_of(fake_artifact) == []


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "XXX11YYY,M11.1.0,M12.1.0"])
def test_times_and_names_are_utc_in_every_zone(
    fake_artifact: Path, start_artifact: Start, zone: str
) -> None:
    before = time.time()
    process = start_artifact("run", "-q", "--rounds", "1", cwd=fake_artifact, TZ=zone)
    _, err = process.communicate()
    assert process.returncode == 0, err
    after = time.time()
    (folder,) = runs(fake_artifact)
    document = read_results(folder)
    moments = [document["started"], *(s["started"] for s in document["samples"])]
    moments.append(document["finished"])
    assert moments == sorted(moments)
    assert folder.name.startswith(moments[0][:19].replace("-", "").replace(":", "") + "Z-")
    for text in moments:
        assert int(before) <= utc_seconds(text) <= after
    assert verify_run(folder).findings == ()


def utc_seconds(text: str) -> int:
    import calendar

    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))


def test_a_locale_with_decimal_comma(
    fake_artifact: Path, start_artifact: Start, tmp_path: Path
) -> None:
    if shutil.which("localedef") is None:
        pytest.skip("there is no localedef to make the locale")
    made = tmp_path / "locales"
    made.mkdir()
    done = subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", made / "de_DE.UTF-8"], capture_output=True
    )
    if done.returncode != 0:
        pytest.skip("localedef has no de_DE here")
    german = {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "LOCPATH": str(made)}
    shown = subprocess.run(
        ["locale", "-k", "decimal_point"], env={**os.environ, **german}, capture_output=True
    )
    assert b'decimal_point=","' in shown.stdout
    process = start_artifact("run", "--rounds", "1", cwd=fake_artifact, **german)
    out, err = process.communicate()
    assert process.returncode == 0, err
    (folder,) = runs(fake_artifact)
    assert verify_run(folder).findings == ()
    assert "," not in out.splitlines()[2]
    assert {b["env"]["LC_ALL"] for b in read_results(folder)["backends"]} == {"C.UTF-8"}


def test_rich_is_loaded_on_a_terminal_only(fake_artifact: Path, start_artifact: Start) -> None:
    process = start_artifact(
        "run", "-q", "--worker-env", "beta:FAULT=exit@hello", cwd=fake_artifact,
        PYTHONPROFILEIMPORTTIME="1",
    )  # fmt: skip
    _, err = process.communicate()
    assert process.returncode == ExitCode.MEASUREMENT
    assert "artifact.bench.runner" in err
    assert "rich.progress" not in err
    assert "matplotlib" not in err


def test_a_terminal_sees_live_progress(fake_artifact: Path) -> None:
    import pty
    import sys

    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "artifact", "run", "--rounds", "1", "--no-color"],
        cwd=fake_artifact,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(terminal)
    seen = b""
    with contextlib.suppress(OSError):
        while data := os.read(main, 65536):
            seen += data
    os.close(main)
    assert process.wait() == 0
    assert b"timing" in seen
    assert b"beta, N=10, round 1, about" in seen
    assert b"12/12" in seen or b"11/12" in seen or b"5/6" in seen
