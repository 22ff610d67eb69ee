"""Every kind of finding, each made in a tree that was as pinned."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artifact.errors import VerificationError
from artifact.integrity.lockfile import write_lock
from artifact.integrity.pin import Finding
from artifact.integrity.seal import sealed
from artifact.integrity.tree import Tree
from artifact.integrity.verify import Report, describe, expecting, parse_content_id, verify
from artifact.model.canonical import pretty_json
from artifact.model.root import LOCK, MANIFEST

README = "README.md"
WORKER = "workers/rowsum.py"
SOURCE = "kernels/rowsum.src"
GENERATED = "generated/rowsum.c"


def check(tree: Path, **options: Any) -> Report:
    return verify(Tree(tree), **options)


def kinds(report: Report) -> list[tuple[str, str]]:
    return [(finding.kind, finding.path) for finding in report.findings]


def only(report: Report) -> Finding:
    assert len(report.findings) == 1, [describe(f) for f in report.findings]
    return report.findings[0]


# ---------------------------------------------------------------------------------- as pinned


def test_a_tree_that_is_as_pinned(tree: Path) -> None:
    report = check(tree)
    assert report.ok and report.findings == ()
    report.require()
    pinned = json.loads((tree / LOCK).read_text())["files"]
    assert report.files == report.pinned == len(pinned) + 1
    assert report.bytes == sum(p["size"] for p in pinned) + (tree / LOCK).stat().st_size
    assert report.content_id is not None and parse_content_id(report.content_id)
    assert check(tree, fast=True).content_id == report.content_id
    assert set(report.seconds) == {"documents", "walk", "hashing", "comparison"}


def test_where_it_lies_and_when_it_was_written_do_not_matter(tree: Path, tmp_path: Path) -> None:
    before = check(tree).content_id
    moved = tmp_path / "somewhere else"
    shutil.copytree(tree, moved)
    for path in moved.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700 if path.is_dir() else 0o600)
    assert check(moved).ok and check(moved).content_id == before


def test_what_stands_outside_is_listed_and_no_finding(tree: Path) -> None:
    before = check(tree).content_id
    (tree / ".git").mkdir()
    (tree / ".git/config").write_text("x")
    (tree / "workers/__pycache__").mkdir()
    (tree / "workers/__pycache__/x.pyc").write_bytes(b"x")
    (tree / "x.pyc").write_bytes(b"x")
    (tree / "build").symlink_to("/nowhere")  # a link of that name is no directory
    (tree / "runs/20260101T000000Z-cpu-fp32").mkdir(parents=True)
    (tree / "runs/20260101T000000Z-cpu-fp32/results.json").write_text("{}")
    report = check(tree)
    assert kinds(report) == [("symlink", "build")]
    assert report.content_id == before
    assert report.outside == (".git/", "workers/__pycache__/", "x.pyc")
    assert report.unlisted_results == ("runs/20260101T000000Z-cpu-fp32/",)


def test_a_directory_outside_is_not_looked_into(tree: Path, monkeypatch: Any) -> None:
    (tree / ".git/objects").mkdir(parents=True)
    looked: list[str] = []
    real = os.scandir

    def scandir(path: Any) -> Any:
        looked.append(str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    check(tree)
    assert looked and not any(".git" in path for path in looked)


def test_empty_directories_mean_nothing(tree: Path) -> None:
    (tree / "empty/nested").mkdir(parents=True)
    assert check(tree).ok


# ------------------------------------------------------------------------------------ contents


def files_of(tree: Path) -> list[str]:
    return sorted(p.relative_to(tree).as_posix() for p in tree.rglob("*") if p.is_file())


def test_one_changed_byte_anywhere_is_named(tree: Path) -> None:
    identity = check(tree).content_id
    for path in files_of(tree):
        data = (tree / path).read_bytes()
        for place in {0, len(data) // 2, len(data) - 1}:
            changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            (tree / path).write_bytes(changed)
            try:
                report = check(tree, expect_content_id=identity)
            except VerificationError as error:  # no document any more
                assert path in (MANIFEST, LOCK) and path in (error.where or "")
            else:
                assert not report.ok, (path, place)
                assert path in {finding.path for finding in report.findings}
                assert all(finding.message for finding in report.findings)
        (tree / path).write_bytes(data)
    assert check(tree, expect_content_id=identity).ok


@given(st.data())
@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_any_edit_is_a_finding(tree: Path, data: st.DataObject) -> None:
    path = tree / data.draw(st.sampled_from([README, WORKER, SOURCE, GENERATED]))
    before = path.read_bytes()
    start = data.draw(st.integers(0, len(before)))
    stop = data.draw(st.integers(start, min(start + 8, len(before))))
    after = before[:start] + data.draw(st.binary(max_size=8)) + before[stop:]
    path.write_bytes(after)
    try:
        assert check(tree).ok == (before == after)
    finally:
        path.write_bytes(before)


def test_line_endings_are_explained(tree: Path) -> None:
    path = tree / README
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    finding = only(check(tree))
    assert (finding.kind, finding.path) == ("changed", README)
    assert finding.reason == "line endings: LF became CRLF (the same after CRLF to LF)"
    assert finding.expected != finding.found


def test_a_checkout_with_converted_line_endings_is_explained_file_by_file(tree: Path) -> None:
    for path in files_of(tree):
        (tree / path).write_bytes((tree / path).read_bytes().replace(b"\n", b"\r\n"))
    report = check(tree)
    changed = [f for f in report.findings if f.kind == "changed"]
    assert {f.path for f in changed} == set(files_of(tree))
    others = [f for f in changed if f.path != LOCK]
    assert all("LF became CRLF" in (f.reason or "") for f in others)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda data: data + b"appended", "8 bytes appended"),
        (lambda data: data[:100], "truncated"),
        (lambda data: b"", "empty"),
        (lambda data: b"\xef\xbb\xbf" + data, "byte order mark"),
        (lambda data: data[:-1], "last line ending is gone"),
    ],
)
def test_other_edits_are_explained(tree: Path, edit: Callable[[bytes], bytes], words: str) -> None:
    path = tree / README
    path.write_bytes(edit(path.read_bytes()))
    assert words in (only(check(tree)).reason or "")


def test_swapped_files_are_explained(tree: Path) -> None:
    one, two = (tree / README).read_bytes(), (tree / WORKER).read_bytes()
    (tree / README).write_bytes(two)
    (tree / WORKER).write_bytes(one)
    assert [f.reason for f in check(tree).findings] == [
        f"it holds the contents of {WORKER}",
        f"it holds the contents of {README}",
    ]


def test_the_mode_alone(tree: Path) -> None:
    for path in (README, LOCK):
        (tree / path).chmod(0o755)
    report = check(tree)
    assert kinds(report) == [("mode", README), ("mode", LOCK)]
    assert report.findings[0].reason == f"chmod -x {README}"
    assert (report.findings[0].expected, report.findings[0].found) == (
        "not executable",
        "executable",
    )
    assert report.content_id is not None


def test_mode_and_contents_are_two_findings(tree: Path) -> None:
    (tree / README).write_bytes(b"x")
    (tree / README).chmod(0o755)
    assert kinds(check(tree)) == [("changed", README), ("mode", README)]


def test_a_sha256_that_was_edited_in_the_lock(tree: Path) -> None:
    edit_pin(tree, README, sha256="0" * 64)
    finding = only(check(tree))
    assert finding.path == README and "SHA-256" in finding.message
    assert check(tree, fast=True).ok  # what --fast leaves out


# --------------------------------------------------------------------------------------- names


def test_missing_and_extra(tree: Path) -> None:
    (tree / README).unlink()
    (tree / "workers/extra.py").write_text("print()")
    report = check(tree)
    assert kinds(report) == [("missing", README), ("extra", "workers/extra.py")]
    assert report.content_id is None


def test_an_extra_file_alone_leaves_the_content_id(tree: Path) -> None:
    before = check(tree).content_id
    (tree / "workers/extra.py").write_text("print()")
    report = check(tree)
    assert not report.ok and report.content_id == before


def test_the_name_in_another_case(tree: Path) -> None:
    (tree / README).rename(tree / "readme.md")
    finding = only(check(tree))
    assert (finding.kind, finding.path, finding.found) == ("case", README, "readme.md")


def test_a_directory_in_another_case(tree: Path) -> None:
    (tree / "workers").rename(tree / "Workers")
    finding = only(check(tree))
    assert (finding.kind, finding.path, finding.found) == ("case", WORKER, "Workers/rowsum.py")


def test_two_cases_of_one_name(tree: Path) -> None:
    shutil.copy(tree / README, tree / "readme.md")
    finding = only(check(tree))
    assert (finding.kind, finding.path, finding.expected) == ("case", "readme.md", README)


@pytest.fixture
def accented(tree: Path) -> Path:
    (tree / "caf\u00e9.txt").write_text("x")
    write_lock(tree)
    assert check(tree).ok
    return tree


def test_the_name_in_another_unicode_form(accented: Path) -> None:
    decomposed = unicodedata.normalize("NFD", "caf\u00e9.txt")
    (accented / "caf\u00e9.txt").rename(accented / decomposed)
    finding = only(check(accented))
    assert (finding.kind, finding.path) == ("normalisation", "caf\u00e9.txt")
    # The two look the same, so they are shown escaped.
    assert (finding.expected, finding.found) == ("caf\\xe9.txt", "cafe\\u0301.txt")


def test_both_unicode_forms_of_one_name(accented: Path) -> None:
    (accented / unicodedata.normalize("NFD", "caf\u00e9.txt")).write_text("x")
    finding = only(check(accented))
    assert (finding.kind, finding.path) == ("normalisation", "cafe\u0301.txt")


def test_a_name_in_another_case_with_other_contents(tree: Path) -> None:
    (tree / README).unlink()
    (tree / "readme.md").write_text("other")
    assert only(check(tree)).reason == "its contents differ too"


def test_a_renamed_file(tree: Path) -> None:
    (tree / "docs").mkdir()
    (tree / README).rename(tree / "docs/INTRO.md")
    finding = only(check(tree))
    assert (finding.kind, finding.path, finding.found) == ("renamed", README, "docs/INTRO.md")
    assert check(tree, fast=True).findings == (finding,)


def test_an_empty_file_is_not_taken_for_another(tree: Path) -> None:
    (tree / "empty").touch()
    write_lock(tree)
    (tree / "empty").rename(tree / "hollow")
    assert kinds(check(tree)) == [("missing", "empty"), ("extra", "hollow")]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (b"bad\xff.txt", "is not valid Unicode"),
        (b"bad\n.txt", "contains the character"),
        (b"bad:name", "contains the character ':'"),
        (b"AUX.txt", "Windows reserves"),
        (b"ends.", "ends in a dot"),
        ("nfd-e\u0301".encode(), "normal form C"),
    ],
)
def test_an_extra_file_with_a_bad_name(tree: Path, name: bytes, words: str) -> None:
    (tree / os.fsdecode(name)).write_text("x")
    finding = only(check(tree))
    assert finding.kind == "name" and words in finding.message


def test_what_a_killed_command_left_behind(tree: Path) -> None:
    (tree / "manifests/.lock.json.0123456789abcdef.partial").write_text("{")
    finding = only(check(tree))
    assert finding.kind == "extra" and "delete it" in (finding.reason or "")


# --------------------------------------------------------------------------------------- kinds


def test_a_symlink_in_place_of_a_file(tree: Path, tmp_path: Path) -> None:
    shutil.copy(tree / README, tmp_path / "same bytes")
    (tree / README).unlink()
    (tree / README).symlink_to(tmp_path / "same bytes")
    report = check(tree)
    finding = only(report)
    assert (finding.kind, finding.path) == ("symlink", README)
    assert finding.found == f"a symlink to {tmp_path / 'same bytes'}"
    assert report.content_id is None


def test_an_extra_symlink(tree: Path) -> None:
    (tree / "link").symlink_to("README.md")
    (tree / "loop").symlink_to("loop")
    assert kinds(check(tree)) == [("symlink", "link"), ("symlink", "loop")]


def test_a_symlinked_directory_is_not_followed(tree: Path, tmp_path: Path) -> None:
    (tree / "workers").rename(tmp_path / "workers")
    (tree / "workers").symlink_to(tmp_path / "workers")
    report = check(tree)
    assert kinds(report) == [("symlink", "workers"), ("missing", WORKER)]
    assert report.findings[1].reason == "workers is a symlink, which is not followed"


def test_the_lock_as_a_symlink(tree: Path, tmp_path: Path) -> None:
    (tree / LOCK).rename(tmp_path / "lock.json")
    (tree / LOCK).symlink_to(tmp_path / "lock.json")
    report = check(tree)
    assert kinds(report) == [("symlink", LOCK)] and report.content_id is None


def test_pipes_and_sockets(tree: Path) -> None:
    (tree / README).unlink()
    os.mkfifo(tree / README)
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(tree)
        listener.bind("s")
        assert kinds(check(tree)) == [("special", README), ("special", "s")]


def test_a_directory_in_place_of_a_file(tree: Path) -> None:
    (tree / README).unlink()
    (tree / README).mkdir()
    assert only(check(tree)).kind == "missing"
    (tree / README / "x").write_text("x")
    report = check(tree)
    assert kinds(report) == [("missing", README), ("extra", "README.md/x")]
    assert report.findings[0].reason == "a directory stands in its place"


def test_a_pinned_file_that_the_rules_set_outside(tree: Path) -> None:
    manifest = tree / MANIFEST
    manifest.write_text(manifest.read_text().replace('"build/"', '"build/", "workers/"'))
    findings = {f.path: f for f in check(tree).findings}
    assert findings[MANIFEST].kind == "changed"
    assert findings[WORKER].kind == "missing"
    assert "inventory rules" in (findings[WORKER].reason or "")


# ------------------------------------------------------------------------------- chain, the lock


def test_an_edited_kernel_is_found_at_every_link(tree: Path) -> None:
    (tree / SOURCE).write_text((tree / SOURCE).read_text() + "// edited\n")
    report = check(tree)
    assert kinds(report) == [("chain", GENERATED), ("changed", SOURCE), ("chain", SOURCE)]
    assert "artifact lock" in (report.findings[0].reason or "")


def test_a_stale_generated_file_that_was_pinned_by_hand(tree: Path) -> None:
    (tree / SOURCE).write_text((tree / SOURCE).read_text() + "// edited\n")
    repin(tree, SOURCE)
    report = check(tree)
    assert kinds(report) == [("chain", GENERATED), ("chain", SOURCE)]
    assert report.findings[0].message == f"stale: it was made of another {SOURCE}"


def test_a_lock_edited_together_with_a_file(tree: Path) -> None:
    identity = check(tree).content_id
    assert identity is not None
    (tree / README).write_text("other words\n")
    repin(tree, README)
    report = check(tree)
    assert report.ok and report.content_id != identity
    tampered = check(tree, expect_content_id=identity)
    finding = only(tampered)
    assert (finding.kind, finding.path) == ("content-id", LOCK)
    assert (finding.expected, finding.found) == (
        f"blake3:{identity}",
        f"blake3:{report.content_id}",
    )
    assert "the lock itself is another one" in (finding.reason or "")


def test_a_lock_that_only_drops_or_reorders_bytes_of_itself(tree: Path) -> None:
    identity = check(tree).content_id
    lock = json.loads((tree / LOCK).read_text())
    (tree / LOCK).write_text(json.dumps(lock))  # the same pins in another form
    assert kinds(check(tree)) == [("changed", LOCK)]
    tampered = check(tree, expect_content_id=identity)
    assert kinds(tampered) == [("changed", LOCK), ("content-id", LOCK)]


def test_an_expectation_that_cannot_be_met_says_why(tree: Path) -> None:
    (tree / README).unlink()
    report = check(tree, expect_content_id="0" * 64)
    assert kinds(report) == [("missing", README), ("content-id", LOCK)]
    assert report.findings[1].found == "none"
    assert expecting(report, "0" * 64, "again").findings[-1].message.endswith("again")


def edit_pin(tree: Path, path: str, **values: object) -> None:
    lock = json.loads((tree / LOCK).read_text())
    next(pin for pin in lock["files"] if pin["path"] == path).update(values)
    (tree / LOCK).write_bytes(sealed(pretty_json(lock)))


def repin(tree: Path, path: str) -> None:
    """What a careful attacker does: make the lock agree with the file."""
    from artifact.integrity.digest import hash_file

    found = hash_file(tree / path)
    edit_pin(tree, path, size=found.size, blake3=found.blake3, sha256=found.sha256)


# ----------------------------------------------------------------------------------- everything


def test_everything_is_found_in_one_pass(tree: Path) -> None:
    (tree / README).write_text("other")
    (tree / WORKER).unlink()
    (tree / GENERATED).chmod(0o755)
    (tree / "extra").write_text("x")
    (tree / "link").symlink_to("extra")
    report = check(tree)
    assert {kind for kind, _ in kinds(report)} == {"changed", "missing", "mode", "extra", "symlink"}
    with pytest.raises(VerificationError) as caught:
        report.require()
    error = caught.value
    assert len(error.details) == len(report.findings) == 5
    assert error.found == f"5 findings, of which the first: {error.details[0]}"


def test_an_error_has_the_first_of_many_findings_and_how_many_there_are(tree: Path) -> None:
    for i in range(30):
        (tree / f"extra{i:02}").touch()
    with pytest.raises(VerificationError) as caught:
        check(tree).require()
    error = caught.value
    assert len(error.details) == 21
    assert error.found is not None and error.found.startswith("30 findings, ")
    assert "extra00" in error.found and "extra00" in error.details[0]
    assert error.details[-1] == "and 10 more"


def test_the_next_command_names_a_tree_that_is_elsewhere(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / README).write_text("other")
    said = []
    for place in (tree / "workers", tree.parent):
        monkeypatch.chdir(place)
        with pytest.raises(VerificationError) as caught:
            check(tree).require()
        said.append(caught.value.next)
    assert said == ["artifact verify", f"artifact verify --root {tree}"]


def test_a_file_that_changes_while_it_is_verified(tree: Path, monkeypatch: Any) -> None:
    real = Tree.digests

    def digests(self: Tree, paths: Any, **options: Any) -> Any:
        (tree / MANIFEST).write_text((tree / MANIFEST).read_text() + "# later\n")
        return real(self, paths, **options)

    monkeypatch.setattr(Tree, "digests", digests)
    with pytest.raises(VerificationError, match="changed while"):
        check(tree)


def test_a_lock_that_vanishes_meanwhile_is_missing(tree: Path, monkeypatch: Any) -> None:
    real = Tree.entries

    def entries(self: Tree) -> Any:
        (tree / LOCK).unlink()
        return real(self)

    monkeypatch.setattr(Tree, "entries", entries)
    report = check(tree)
    assert kinds(report) == [("missing", LOCK)] and report.content_id is None


@pytest.mark.parametrize("text", ["", "xyz", "blake3:", "a" * 63, "sha256:" + "a" * 64])
def test_what_is_no_content_id(text: str) -> None:
    from artifact.errors import UsageError

    with pytest.raises(UsageError):
        parse_content_id(text)
    assert parse_content_id(f" blake3:{'A' * 64}\n") == "a" * 64


# --------------------------------------------------------------------------------- large trees


def test_65536_files(tree: Path) -> None:
    many = tree / "many"
    for folder in range(64):
        (many / f"{folder:02}").mkdir(parents=True)
        for number in range(1024):
            descriptor = os.open(f"{many}/{folder:02}/{number}", os.O_CREAT | os.O_WRONLY, 0o644)
            os.write(descriptor, b"%d" % number)
            os.close(descriptor)
    outcome = write_lock(tree)
    report = check(tree, fast=True)
    assert report.ok and report.content_id == outcome.content_id
    assert report.files > 65536
    (many / "63/1023").write_text("changed")
    assert kinds(check(tree, fast=True)) == [("changed", "many/63/1023")]


def test_names_of_255_bytes(tree: Path) -> None:
    for name in ("a" * 255, "\u00e9" * 127 + "b", "\U0001f600" * 63 + "abc"):
        assert len(name.encode()) == 255
        (tree / name).write_text("x")
    write_lock(tree)
    assert check(tree).ok


def test_a_tree_that_is_mounted_read_only(tree: Path, tmp_path: Path) -> None:
    before = check(tree).content_id
    mount = tmp_path / "mounted"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "--bind", "-o", "ro", tree, mount], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.decode().strip()}")
    try:
        with pytest.raises(OSError) as caught:
            (mount / "x").write_text("x")
        assert caught.value.errno == errno.EROFS
        report = check(mount)
        assert report.ok and report.content_id == before
    finally:
        subprocess.run(["umount", mount], check=True)
