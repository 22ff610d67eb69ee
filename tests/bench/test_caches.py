"""Compile caches that are kept and taken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from artifact.bench import caches
from artifact.bench.childenv import make_scratch
from artifact.errors import EnvironmentUnmet, ExitCode, UsageError, VerificationError


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """The scratch folder of a run that has compiled something."""
    folder = tmp_path / "scratch"
    make_scratch(folder)
    kernel = folder / "cache/triton/K1"
    kernel.mkdir()
    (kernel / "k.cubin").write_bytes(b"\x7fELF")
    group = {"child_paths": {"k.cubin": str(kernel / "k.cubin")}}
    (kernel / "__grp__k.json").write_text(json.dumps(group))
    (folder / "cache/tilelang/a.lock").touch()
    (folder / "cache/tilelang/link").symlink_to("/etc/passwd")
    (folder / "tmp/left-over").touch()
    return folder


def test_what_is_kept_can_be_begun_with(scratch: Path, tmp_path: Path) -> None:
    kept = caches.keep(scratch, tmp_path / "a/kept")
    assert (kept.files, kept) == (2, caches.describe(tmp_path / "a/kept"))
    text = (tmp_path / "a/kept/triton/K1/__grp__k.json").read_text()
    assert "$SCRATCH/cache/triton/K1/k.cubin" in text
    assert str(tmp_path) not in text
    other = tmp_path / "other"
    make_scratch(other)
    assert caches.seed(other, tmp_path / "a/kept", f"blake3:{kept.blake3}") == kept
    group = json.loads((other / "cache/triton/K1/__grp__k.json").read_text())
    assert Path(group["child_paths"]["k.cubin"]).read_bytes() == b"\x7fELF"
    # The same kernels, compiled in another place, have the same digest.
    assert caches.keep(other, tmp_path / "again") == kept
    assert not list(tmp_path.rglob(".*.partial"))


def test_another_content_is_refused(scratch: Path, tmp_path: Path) -> None:
    kept = caches.keep(scratch, tmp_path / "kept")
    (tmp_path / "kept/triton/K1/k.cubin").write_bytes(b"\x7fELG")
    other = tmp_path / "other"
    make_scratch(other)
    with pytest.raises(VerificationError, match="another content") as caught:
        caches.seed(other, tmp_path / "kept", f"blake3:{kept.blake3}")
    assert caught.value.exit_code == ExitCode.VERIFICATION
    assert caught.value.expected == f"blake3:{kept.blake3}"
    assert caught.value.found == f"blake3:{caches.describe(tmp_path / 'kept').blake3}"


def test_a_link_is_never_followed(scratch: Path) -> None:
    with pytest.raises(UsageError, match="something else than files") as caught:
        caches.describe(scratch / "cache")
    assert str(caught.value.where).endswith("link")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder of caches"):
        caches.describe(tmp_path / "x")
    with pytest.raises(EnvironmentUnmet, match="cannot be copied"):
        caches.seed(tmp_path, tmp_path / "x", "blake3:00")


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    caches.check_options(None, None, None)
    caches.check_options(tmp_path, "blake3:00", tmp_path / "new")
    with pytest.raises(UsageError, match="only together with its digest") as caught:
        caches.check_options(tmp_path, None, None)
    assert caches.describe(tmp_path).blake3 in str(caught.value.found)
    assert "--cache-digest blake3:" in str(caught.value.next)
    with pytest.raises(UsageError, match="without their folder"):
        caches.check_options(None, "blake3:00", None)
    with pytest.raises(UsageError, match="exists already"):
        caches.check_options(None, None, tmp_path)
