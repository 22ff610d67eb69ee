"""The seal of a lock: every byte of it is covered."""

from __future__ import annotations

from pathlib import Path

import pytest

from artifact.integrity.lockfile import write_lock
from artifact.integrity.seal import is_sealed, sealed
from artifact.integrity.tree import Tree
from artifact.integrity.verify import verify
from artifact.model.root import LOCK

ROWSUM = Path(__file__).resolve().parents[1] / "assets/rowsum"


def document(seal: str = "0" * 64) -> bytes:
    return b'{\n "lock_version": 1,\n "seal": "' + seal.encode() + b'"\n}\n'


def test_what_was_sealed_is_sealed() -> None:
    data = sealed(document())
    assert is_sealed(data)
    assert sealed(data) == data
    assert not is_sealed(document())


def test_no_byte_changes_unseen() -> None:
    data = sealed(document())
    for i in range(len(data)):
        assert not is_sealed(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :]), i
        assert not is_sealed(data[:i]), i
    assert not is_sealed(data + b"\n")


def test_only_a_last_field_can_be_a_seal() -> None:
    with pytest.raises(ValueError, match="last field"):
        sealed(b'{"seal": "' + b"0" * 64 + b'", "more": 1}\n')


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\n", b"\n\n"),
        (b'"lock_version": 1', b'"lock_version":  1'),
        (b'"level": 6', b'"level": 7'),
    ],
)
def test_an_edited_lock_is_a_finding(tmp_path: Path, old: bytes, new: bytes) -> None:
    import shutil

    tree = tmp_path / "tree"
    shutil.copytree(ROWSUM, tree)
    write_lock(tree)
    assert verify(Tree(tree)).findings == ()
    lock = tree / LOCK
    lock.write_bytes(lock.read_bytes().replace(old, new, 1))
    findings = verify(Tree(tree)).findings
    assert (findings[0].kind, findings[0].path) == ("changed", LOCK)
    assert "seal" in str(findings[0].reason)
