"""Where a tree is, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from artifact.errors import UsageError
from artifact.model.root import MANIFEST, find_root


def plant(folder: Path) -> Path:
    manifest = folder / MANIFEST
    manifest.parent.mkdir(parents=True)
    manifest.write_text("")
    return folder


def refusal(start: Path, explicit: Path | None = None) -> UsageError:
    with pytest.raises(UsageError) as caught:
        find_root(start, explicit)
    return caught.value


def test_a_tree_is_found_from_within_and_by_name(tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree")
    assert find_root(tree / "manifests") == find_root(Path("/"), tree) == tree.resolve()


def test_the_folder_around_trees_names_each_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path / "a b")
    plant(tmp_path / "c")
    plant(tmp_path / "d/deeper")
    monkeypatch.chdir(tmp_path)
    for error in (refusal(tmp_path), refusal(tmp_path / "d", Path())):
        assert error.found is not None and error.found.endswith("; there are some in 'a b', c")
        assert error.next == ("add to the command: --root 'a b'\nadd to the command: --root c")
    monkeypatch.chdir("/")
    assert f"--root {tmp_path}/c" in str(refusal(tmp_path).next)


def test_of_many_trees_three_are_named(tmp_path: Path) -> None:
    for name in "edcba":
        plant(tmp_path / name)
    error = refusal(tmp_path)
    assert error.found is not None and error.found.endswith("; there are some in a, b, c")
    assert str(error.next).count("--root") == 3


def test_the_name_of_a_tree_is_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path / "--help")
    monkeypatch.chdir(tmp_path)
    for error in (refusal(tmp_path), refusal(Path("/"), Path())):
        assert error.next == "add to the command: --root ./--help"


def test_where_no_tree_is_near_it_stays_general(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    assert refusal(tmp_path).next == "change into an artifact's tree, or name it: --root DIR"
    for explicit in (tmp_path, tmp_path / "file", tmp_path / "nowhere"):
        error = refusal(Path("/"), explicit)
        assert error.next == "artifact --help" and "there is one" not in str(error.found)
