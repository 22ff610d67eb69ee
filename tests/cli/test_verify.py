"""``artifact verify`` as a process: words, exit codes, JSON, archives, signals."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artifact.integrity.digest import hash_file
from artifact.model.root import LOCK

README = "README.md"

Run = Callable[..., subprocess.CompletedProcess[str]]


def identity(run: Run, tree: Path) -> str:
    return run("verify", "--quiet", cwd=tree).stdout.split("content id: ")[1].split()[0]


def test_a_tree_that_is_as_pinned(run: Run, tree: Path) -> None:
    done = run("verify", cwd=tree / "workers")  # the root is found from within
    assert done.returncode == 0 and done.stderr == ""
    lines = dict(line.split(":", 1) for line in done.stdout.splitlines())
    assert lines["artifact"].split() == ["rowsum-demo", "1.0.0"]
    assert "everything is as pinned" in lines["verified"]
    assert lines["content id"].strip().startswith("blake3:")
    assert "\x1b" not in done.stdout


def test_quiet_prints_the_answer_alone(run: Run, tree: Path) -> None:
    done = run("verify", "--quiet", cwd=tree)
    assert done.stdout.count("\n") == 1 and done.stdout.startswith("content id: blake3:")


def test_verbose_says_what_stands_outside_and_where_time_went(run: Run, tree: Path) -> None:
    (tree / ".git").mkdir()
    (tree / "runs/x").mkdir(parents=True)
    (tree / "runs/x/results.json").write_text("{}")
    first, second = (run("verify", "-v", cwd=tree).stdout for _ in range(2))
    assert "outside:    .git/\n" in first and "outside:    runs/x/ (a run" in first
    assert "documents (validated now)" in first and "documents (validated before)" in second
    for step in ("interpreter and command line", "imports", "walk", "hashing", "in all"):
        assert step in second


def test_each_finding_takes_two_aligned_lines(run: Run, tree: Path) -> None:
    path = tree / README
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    (tree / "extra").write_text("x")
    done = run("verify", cwd=tree)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"changed  {README}: its contents are not what was pinned")
    assert lines[1].startswith("         line endings: LF became CRLF")
    assert "expected" in lines[1] and "found" in lines[1]
    assert lines[2].startswith("extra    extra: it is not pinned")
    assert lines[3].startswith("         ")
    assert "NO: 2 findings" in done.stdout


def test_json_is_one_document(run: Run, tree: Path) -> None:
    (tree / "extra").write_text("x")
    done = run("verify", "--json", cwd=tree)
    assert done.returncode == 1 and done.stderr == ""
    document = json.loads(done.stdout)
    assert document["ok"] is False
    assert [(f["kind"], f["path"]) for f in document["findings"]] == [("extra", "extra")]
    assert document["content_id"].startswith("blake3:")


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_broken_document_is_one_error(run: Run, tree: Path, flags: tuple[str, ...]) -> None:
    (tree / "manifests/artifact.toml").write_bytes("titel = 'Größe'".encode("latin-1"))
    done = run("verify", *flags, cwd=tree)
    assert done.returncode == 1
    if flags:
        assert json.loads(done.stdout)["exit_code"] == 1
    else:
        assert done.stderr.startswith("error: a document is not UTF-8\n  where:")


def test_a_name_cannot_write_to_the_terminal(run: Run, tree: Path) -> None:
    (tree / "\x1b[2Jcleared\nok: verified").write_text("x")
    done = run("verify", cwd=tree)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout and "\\x1b[2Jcleared\\nok" in done.stdout


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_name_that_the_terminal_cannot_show(run: Run, tree: Path, encoding: str) -> None:
    (tree / os.fsdecode(b"\xff\xc3\xa9")).write_text("x")
    done = run("verify", cwd=tree, PYTHONIOENCODING=encoding)
    assert done.returncode == 1 and "1 finding" in done.stdout


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("nowhere",), 2, "there is nothing to verify here"),
        (("--root", "nowhere"), 2, "there is nothing to verify here"),
        (("workers", "--root", "."), 2, "--root"),
        (("workers",), 2, "there is no artifact here"),
        (("README.md",), 1, "archive"),
        (("--expect-content-id", "abc"), 2, "this is no content id"),
        (("--checksums", "README.md"), 1, "checksum file"),
        (("--checksums", "nowhere"), 1, "missing"),
        (("--no-such-option",), 2, "no such option"),
    ],
)
def test_bad_requests(run: Run, tree: Path, args: tuple[str, ...], code: int, words: str) -> None:
    done = run("verify", *args, cwd=tree)
    assert done.returncode == code, done.stderr
    assert words in done.stderr


def test_the_folder_above_a_tree_is_answered_with_the_tree(run: Run, tree: Path) -> None:
    """Where an archive was unpacked by other means, the folder around its tree is named easily."""
    above = tree.parent
    for args, cwd, named in (
        ((above,), Path("/"), str(tree)),
        ((), above, "tree"),
        ((".",), above, "tree"),
        (("--root", "."), above, "tree"),
    ):
        done = run("verify", *args, cwd=cwd)
        assert done.returncode == 2
        answers = dict(line.strip().split(":", 1) for line in done.stderr.splitlines())
        assert answers["error"] == " there is no artifact here"
        assert "there is one in tree" in answers["found"]
        assert answers["next"].split() == ["artifact", "verify", named]
        assert run(*answers["next"].split()[1:], cwd=cwd).returncode == 0


def test_the_lock_is_tied_by_the_published_content_id(run: Run, tree: Path) -> None:
    published = identity(run, tree)
    assert run("verify", "--expect-content-id", published, cwd=tree).returncode == 0
    (tree / "README.md").write_text("other words\n")
    assert run("lock", cwd=tree).returncode == 0
    assert run("verify", cwd=tree).returncode == 0
    done = run("verify", "--expect-content-id", published, cwd=tree)
    assert done.returncode == 1
    assert "content-id" in done.stdout and "the lock itself is another one" in done.stdout
    sums = tree.parent / "a.sha256"
    sums.write_text(f"# content-id: {published}\n")
    assert run("verify", "--checksums", sums, cwd=tree).returncode == 1


@pytest.mark.parametrize("form", ["tar.gz", "zip"])
def test_an_archive_and_the_files_beside_it(run: Run, tree: Path, form: str) -> None:
    archive = tree.parent / f"a.{form}"
    assert run("pack", "--format", form, "--output", archive, cwd=tree).returncode == 0
    done = run("verify", archive, cwd=tree.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert identity(run, tree) in done.stdout

    # The .sha256 file beside it is checked by itself.
    sums = archive.with_name(archive.name + ".sha256")
    text = sums.read_text()
    good = hash_file(archive).sha256
    assert good is not None and good in text
    sums.write_text(text.replace(good, "0" * 64))
    done = run("verify", archive, cwd=tree.parent)
    assert done.returncode == 1 and "checksum" in done.stdout

    # An archive of another tree with its own lock, under the published name.
    sums.write_text(text)
    (tree / "README.md").write_text("other words\n")
    assert run("lock", cwd=tree).returncode == 0
    other = tree.parent / f"b.{form}"
    assert run("pack", "--format", form, "--output", other, cwd=tree).returncode == 0
    other.replace(archive)
    done = run("verify", archive, cwd=tree.parent)
    assert done.returncode == 1
    assert "checksum" in done.stdout and "content-id" in done.stdout


def test_a_statement_beside_an_archive_is_checked(run: Run, tree: Path) -> None:
    archive = tree.parent / "a.zip"
    assert run("pack", "--format", "zip", "--output", archive, cwd=tree).returncode == 0
    statement = Path(f"{archive}.intoto.json")
    text = statement.read_text()
    digest = hash_file(archive).sha256
    assert text.count(digest) == 1
    statement.write_text(text.replace(digest, "0" * 64))
    done = run("verify", archive, cwd=tree.parent)
    assert done.returncode == 1
    assert "a.zip.intoto.json: the statement beside an archive is about another one" in done.stdout
    # Together with a checksum that is wrong too, each is said, and the archive read once.
    Path(f"{archive}.b3").write_text(f"{'1' * 64}  a.zip\n")
    document = json.loads(run("verify", archive, "--json", cwd=tree.parent).stdout)
    assert [(f["kind"], f["path"]) for f in document["findings"]] == [
        ("checksum", "a.zip"), ("checksum", "a.zip.intoto.json"),
    ]  # fmt: skip
    Path(f"{archive}.b3").unlink()
    statement.write_text("{}")
    assert run("verify", archive, cwd=tree.parent).returncode == 1
    statement.unlink()
    assert run("verify", archive, cwd=tree.parent).returncode == 0


def test_what_cannot_be_read_is_exit_3_where_nothing_is_wrong(tree: Path) -> None:
    program = """
import errno, os, sys
real = os.open
def refuse(path, *args, **named):
    if str(path).endswith("README.md"):
        raise PermissionError(errno.EACCES, "Permission denied", path)
    return real(path, *args, **named)
os.open = refuse
from artifact.cli import app
sys.argv = ["artifact", "verify"]
app.main()
"""

    def verify() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program], cwd=tree, capture_output=True, text=True, check=False
        )

    done = verify()
    assert done.returncode == 3, done.stderr
    assert "README.md: it cannot be read, so it was not compared" in done.stdout
    assert "UNDECIDED: 1 finding" in done.stdout
    (tree / "more").write_text("x")
    done = verify()
    assert done.returncode == 1
    assert "NO: 2 findings" in done.stdout


@pytest.mark.parametrize("form", ["tar.gz", "zip"])
def test_one_changed_byte_of_an_archive(run: Run, tree: Path, form: str) -> None:
    archive = tree.parent / f"a.{form}"
    assert run("pack", "--format", form, "--output", archive, cwd=tree).returncode == 0
    data = archive.read_bytes()
    for place in (0, len(data) // 3, len(data) // 2, len(data) - 1):
        archive.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        done = run("verify", archive, cwd=tree.parent)
        assert done.returncode == 1, place
        assert done.stdout + done.stderr


def test_fast_says_what_it_checked(run: Run, tree: Path) -> None:
    done = run("verify", "--fast", cwd=tree)
    assert done.returncode == 0 and "(size and BLAKE3)" in done.stdout
    assert json.loads(run("verify", "--fast", "--json", cwd=tree).stdout)["digests"] == ["blake3"]


def test_a_tree_without_a_lock(run: Run, tree: Path) -> None:
    (tree / LOCK).unlink()
    done = run("verify", cwd=tree)
    assert done.returncode == 1 and "next:     artifact lock" in done.stderr


@pytest.mark.parametrize(
    ("sent", "words"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "interrupted")]
)
def test_a_signal_while_hashing_ends_it_at_once(
    start_artifact: Any, run: Run, tree: Path, sent: signal.Signals, words: str
) -> None:
    # Pinned as something small, so that making the lock takes no time; hashing it does.
    with (tree / "large").open("wb") as file:
        file.write(b"x")
        assert run("lock", cwd=tree).returncode == 0
        file.truncate(1 << 40)
    process = start_artifact("verify", cwd=tree, XDG_CACHE_HOME=str(tree.parent / "cache"))
    _wait_until_it_reads(process.pid, tree / "large")
    start = time.monotonic()
    process.send_signal(sent)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert time.monotonic() - start < 60, "to read all of it takes many minutes"
    assert words in err and "Traceback" not in err


def test_a_signal_that_the_main_thread_sleeps_through(
    start_artifact: Any, run: Run, tree: Path
) -> None:
    """The kernel may hand it to a thread that hashes, or just before the main one sleeps."""
    with (tree / "large").open("wb") as file:
        file.write(b"x")
        assert run("lock", cwd=tree).returncode == 0
        file.truncate(1 << 40)
    process = start_artifact("verify", cwd=tree, XDG_CACHE_HOME=str(tree.parent / "cache"))
    _wait_until_it_reads(process.pid, tree / "large")
    time.sleep(1)  # by now the main thread waits for the others
    threads = {int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()}
    # On one processor there are none.
    for thread in threads - {process.pid} or {process.pid}:
        assert ctypes.CDLL(None).tgkill(process.pid, thread, signal.SIGTERM) == 0
    process.communicate(timeout=120)
    assert process.returncode == 130


def _wait_until_it_reads(pid: int, path: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if link.readlink() == path:
                    return
            except OSError:
                continue
        time.sleep(0.02)
    raise AssertionError("it never opened the file")


def test_it_starts_without_the_heavy_libraries(run: Run, tree: Path) -> None:
    assert run("verify", cwd=tree).returncode == 0  # the documents are trusted from now on
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "artifact", "verify"],
        cwd=tree,
        env={**os.environ, "XDG_CACHE_HOME": str(tree.parent / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.split("\n")}
    assert "typer" in loaded
    assert not loaded & {"pydantic", "jsonschema", "rich", "numpy", "matplotlib", "jinja2"}


@pytest.mark.parametrize(
    "option",
    [["--expect-content-id", "blake3:" + "0" * 64], ["--checksums", "a.sha256"], ["--fast"]],
    ids=lambda option: option[0],
)
def test_options_that_say_nothing_about_a_results_folder_are_refused(
    run: Run, tree: Path, option: list[str]
) -> None:
    folder = tree / "results" / "a run"
    folder.mkdir(parents=True)
    (folder / "results.json").write_text("{}")
    done = run("verify", folder, *option, cwd=tree)
    assert (done.returncode, done.stdout) == (2, "")
    assert "for a tree or an archive" in done.stderr
    assert " ".join(option) in done.stderr and str(folder) in done.stderr
    assert f"next:     artifact verify '{folder}'" in done.stderr
