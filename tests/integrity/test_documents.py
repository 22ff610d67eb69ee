from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from artifact.errors import EnvironmentUnmet, VerificationError
from artifact.integrity import documents
from artifact.integrity.documents import load_lock, load_manifest, read_documents
from artifact.integrity.seal import sealed
from artifact.integrity.tree import Tree
from artifact.model.canonical import pretty_json
from artifact.model.root import LOCK, MANIFEST


def refused(tree: Path) -> VerificationError:
    with pytest.raises(VerificationError) as caught:
        read_documents(Tree(tree))
    # One clear error: a place, and something that was found or expected there.
    assert caught.value.where and caught.value.where.startswith(str(tree))
    assert caught.value.expected or caught.value.found
    return caught.value


def edit_lock(tree: Path, change: Any) -> None:
    path = tree / LOCK
    lock = json.loads(path.read_text())
    change(lock)
    lock["seal"] = lock.pop("seal")  # its place is the last one
    path.write_bytes(sealed(pretty_json(lock)))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "artifact" / "validated"


# ------------------------------------------------------------------------------------ contents


def test_says_what_manifest_and_lock_say(tree: Path) -> None:
    header = "kernels/any.h"
    build = {
        "nvcc": "13.0.88",
        "nvcc_flags": ["-O3"],
        "headers": [header],
        "libraries": {"toolkit": "0" * 64},
        "cubin_sha256": "1" * 64,
    }
    edit_lock(tree, lambda lock: lock["chain"][0].update(build=build))
    found = read_documents(Tree(tree))
    manifest, lock = load_manifest(tree), load_lock(tree)
    assert (found.artifact, found.version) == (manifest.artifact.name, manifest.artifact.version)
    assert found.mtime == manifest.archive.mtime == "2026-09-21T00:00:00Z"
    assert [k.name for k in found.kernels] == [k.name for k in manifest.kernels]
    assert found.rules.published == frozenset(manifest.inventory.published)
    assert list(found.pins) == [pin.path for pin in lock.files]
    for plain, model in (
        *((found.pins[pin.path], pin) for pin in lock.files),
        *zip(found.links, lock.chain, strict=True),
        (found.deflate, lock.deflate),
    ):
        # A link has the headers of its build alone: only builds compare the rest of it.
        fields = set(type(model).model_fields) - {"build"}
        assert {n: getattr(plain, n) for n in fields} == {n: getattr(model, n) for n in fields}
    assert [link.headers for link in found.links] == [
        pin.build.headers if pin.build else () for pin in lock.chain
    ]
    assert found.links[0].headers == (header,)
    assert found.disagreements == ()


def test_a_lock_of_another_manifest_is_noticed(tree: Path) -> None:
    def change(lock: Any) -> None:
        lock["version"] = "0.9"
        lock["deflate"]["package_version"] = None

    edit_lock(tree, change)
    found = read_documents(Tree(tree)).disagreements
    assert [(f.message.split()[0], f.expected, f.found) for f in found] == [
        ("version", "1.0.0", "0.9"),
        ("deflate.package_version", "1.1.0", "None"),
    ]


# --------------------------------------------------------------------------------------- trust


def test_what_passed_once_is_not_validated_again(tree: Path, cache: Path) -> None:
    first, second = read_documents(Tree(tree)), read_documents(Tree(tree))
    assert (first.trusted, second.trusted) == (False, True)
    assert len(list(cache.iterdir())) == 2
    for name in type(first).__dataclass_fields__:
        if name not in ("trusted", "rules"):
            assert getattr(first, name) == getattr(second, name)


def test_one_changed_byte_is_validated_again(tree: Path, cache: Path) -> None:
    read_documents(Tree(tree))
    with (tree / MANIFEST).open("a") as file:
        file.write("# a comment\n")
    assert not read_documents(Tree(tree)).trusted


def test_what_did_not_pass_is_never_trusted(tree: Path, cache: Path) -> None:
    edit_lock(tree, lambda lock: lock.update(extra=1))
    for _ in range(2):
        assert "extra" in str(refused(tree).render())


def test_a_stamp_is_for_one_document_one_tool_and_one_set_of_models(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = (tree / MANIFEST).read_bytes()
    names = {documents._stamp("manifest", data), documents._stamp("lock", data)}
    monkeypatch.setattr(documents, "__version__", "another")
    names.add(documents._stamp("manifest", data))
    monkeypatch.setattr(documents, "_models", lambda: (b"class Manifest: ...",))
    names.add(documents._stamp("manifest", data))
    assert len(names) == 4


@pytest.mark.parametrize("place", ["writable by others", "symlink", "owned by another"])
def test_a_stamp_that_another_user_could_have_put_there_is_nothing(
    tree: Path, cache: Path, place: str
) -> None:
    read_documents(Tree(tree))
    if place == "writable by others":
        cache.chmod(0o777)
    elif place == "symlink":
        cache.rename(cache.with_name("real"))
        cache.symlink_to("real")
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can give a file away")
        os.chown(cache, 12345, -1)
    assert not read_documents(Tree(tree)).trusted


@pytest.mark.parametrize("home", ["a file", "relative", "unset"])
def test_a_cache_that_cannot_be_used_is_done_without(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    if home == "a file":
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", "relative" if home == "relative" else "")
        monkeypatch.delenv("HOME", raising=False)
        monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert not read_documents(Tree(tree)).trusted
    assert not (tmp_path / "relative").exists()


def test_the_trusted_path_loads_no_validator(tree: Path, cache: Path) -> None:
    read_documents(Tree(tree))
    code = (
        "import sys; from pathlib import Path; from artifact.integrity.tree import Tree;"
        "from artifact.integrity.verify import verify; assert verify(Tree(Path(sys.argv[1]))).ok;"
        "print(sorted({'pydantic', 'jsonschema', 'rich', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tree], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# ------------------------------------------------------------------------------ broken documents


def test_without_a_lock_the_next_command_is_named(tree: Path) -> None:
    (tree / LOCK).unlink()
    assert refused(tree).next == "artifact lock"
    with pytest.raises(VerificationError) as caught:
        load_lock(tree)
    assert caught.value.next == "artifact lock"


def test_without_a_manifest(tree: Path) -> None:
    (tree / MANIFEST).unlink()
    assert "artifact.toml" in (refused(tree).where or "")


@pytest.mark.parametrize("name", [MANIFEST, LOCK])
@pytest.mark.parametrize(
    ("contents", "where"),
    [
        (b"", ""),
        (b"\xff\xfem\x00a\x00", "byte 0"),
        ("titel = 'Größe'".encode("latin-1"), "byte 11"),
        (b"\x00" * 100, ""),
        (b"\x1f\x8b\x08\x00" + bytes(50), "byte 1"),
        (b"[" * 100_000, ""),
        (b"<html><body>404</body></html>", ""),
    ],
    ids=["empty", "utf-16", "latin-1", "zeros", "gzip", "deep", "web page"],
)
def test_what_is_no_document(tree: Path, name: str, contents: bytes, where: str) -> None:
    (tree / name).write_bytes(contents)
    error = refused(tree)
    assert name in (error.where or "") and where in (error.where or "")


@pytest.mark.parametrize("name", [MANIFEST, LOCK])
def test_a_document_cut_anywhere_is_refused(tree: Path, name: str) -> None:
    data = (tree / name).read_bytes()
    for cut in range(1, len(data) - 2, max(1, len(data) // 23)):
        (tree / name).write_bytes(data[:cut])
        refused(tree)


def test_a_document_that_is_too_large_is_not_read(tree: Path) -> None:
    with (tree / LOCK).open("wb") as file:
        file.truncate(300 << 20)
    assert "bytes" in (refused(tree).found or "")


@pytest.mark.parametrize("name", [MANIFEST, LOCK])
def test_a_directory_or_pipe_in_place_of_a_document(tree: Path, name: str) -> None:
    (tree / name).unlink()
    (tree / name).mkdir()
    assert refused(tree).found == "a directory"
    (tree / name).rmdir()
    os.mkfifo(tree / name)  # must not wait for a writer
    refused(tree)


def test_an_unreadable_document_is_the_environments_fault(tree: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (tree / LOCK).chmod(0)
    with pytest.raises(EnvironmentUnmet):
        read_documents(Tree(tree))


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ('"lock_version": 1,', '"lock_version": 1, "lock_version": 1,', "stands twice"),
        ('"lock_version": 1', '"lock_version": NaN', "NaN"),
        ('"lock_version": 1', '"lock_version": -Infinity', "Infinity"),
        ('"lock_version": 1', '"lock_version": 1e999', "too large"),
        ('"lock_version": 1', '"lock_version": 2', "lock_version"),
        ('"lock_version": 1', '"lock_version": true', "lock_version"),
        ('"lock_version": 1', '"lock_version": "1"', "lock_version"),
        ('"lock_version": 1,', '"lock_version": 1,,', ""),
        ('"lock_version": 1,', '"lock_version": 1, // comment', ""),
    ],
)
def test_a_lock_is_read_strictly(tree: Path, old: str, new: str, found: str) -> None:
    text = (tree / LOCK).read_text()
    assert text.count(old) == 1
    (tree / LOCK).write_text(text.replace(old, new))
    assert found in refused(tree).render()


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda k: k["files"].reverse(), "files[1].path"),
        (lambda k: k["files"].insert(0, k["files"][0]), "files[1].path"),
        (lambda k: k["files"][2].update(unknown=1), "files[2]"),
        (lambda k: k["files"][2].pop("sha256"), "files[2]"),
        (lambda k: k["files"][1].update(size=-1), "files[1].size"),
        (lambda k: k["files"][1].update(size=1.5), "files[1].size"),
        (lambda k: k["files"][1].update(size="1"), "files[1].size"),
        (lambda k: k["files"][1].update(executable=1), "files[1].executable"),
        (lambda k: k["files"][0].update(path="../../etc/passwd"), "files[0].path"),
        (lambda k: k["files"][0].update(path="/etc/passwd"), "files[0].path"),
        (lambda k: k["files"][0].update(path="C:\\x"), "files[0].path"),
        (lambda k: k["files"][0].update(path="a\u0000b"), "files[0].path"),
        (lambda k: k["files"][0].update(path="cafe\u0301"), "files[0].path"),
        (lambda k: k["files"][0].update(path="NUL.txt"), "files[0].path"),
        (lambda k: k["files"][0].update(path="x" * 256), "files[0].path"),
        (lambda k: k["files"][3].update(blake3="0" * 63), "files[3].blake3"),
        (lambda k: k["files"][3].update(blake3="G" * 64), "files[3].blake3"),
        (lambda k: k["files"][3].update(blake3="0" * 64 + "\n"), "files[3].blake3"),
        (lambda k: k["chain"][0].update(flags="-O3"), "chain[0].flags"),
        (lambda k: k["deflate"].update(level=0), "deflate.level"),
        (lambda k: k["deflate"].update(implementation="zopfli"), "deflate.implementation"),
        (lambda k: k.update(files={}), "files"),
        (lambda k: k.update(artifact="Not A Name"), "artifact"),
        (lambda k: k.pop("chain"), "document"),
    ],
)
def test_the_place_in_a_lock_is_named(tree: Path, change: Any, place: str) -> None:
    edit_lock(tree, change)
    error = refused(tree)
    assert (error.where or "").endswith(f"{LOCK}: {place}") or any(
        detail.startswith(place) for detail in error.details
    ), error.render()


def test_a_lock_that_is_no_object(tree: Path) -> None:
    for text in ("[]", "1", "null", '"lock"'):
        (tree / LOCK).write_text(text)
        refused(tree)


def test_a_number_with_too_many_digits(tree: Path) -> None:
    text = (tree / LOCK).read_text().replace('"lock_version": 1', f'"lock_version": {"9" * 5000}')
    (tree / LOCK).write_text(text)
    refused(tree)
