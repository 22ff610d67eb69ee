from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from artifact.envs.check import MAX_FILES, check_environment, differences
from artifact.envs.inspect import inspect_interpreter
from artifact.errors import VerificationError
from artifact.model.backend import Environment


@pytest.fixture(scope="module")
def wheels(tiny: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple]:
    folder = tmp_path_factory.mktemp("wheels")
    many = {f"many/m{i}.py": f"x = {i}\n" for i in range(MAX_FILES + 5)}
    return {
        "foo": tiny.wheel(folder, "foo", "1.0"),
        "bar": tiny.wheel(folder, "bar", "2.0", {"bar/__init__.py": "", "bar/data.bin": "data"}),
        "many": tiny.wheel(folder, "many", "1", many),
        "fake-foo": tiny.wheel(folder, "fake-foo", "9", {"foo/__init__.py": "VERSION = 'fake'\n"}),
        "helper": tiny.wheel(folder, "helper", "3"),
    }


@pytest.fixture
def root(tiny: ModuleType, tmp_path: Path, wheels: dict[str, tuple]) -> Path:
    locked = tiny.lock_line("foo", "1.0", wheels["foo"][1])
    locked += tiny.lock_line("bar", "2.0", wheels["bar"][1])
    return tiny.artifact(tmp_path / "tree", locked)


@pytest.fixture
def python(tiny: ModuleType, tmp_path: Path, wheels: dict[str, tuple]) -> Path:
    return tiny.venv(tmp_path / "v", wheels["foo"][0], wheels["bar"][0])


@pytest.fixture
def site(tiny: ModuleType, tmp_path: Path, python: Path) -> Path:
    return tiny.site(tmp_path / "v")


def lines(environment: Environment, python: Path, root: Path, **options: bool) -> list[str]:
    return list(check_environment(environment, python, root, **options))


def test_equal(environment: Environment, python: Path, root: Path) -> None:
    assert lines(environment, python, root) == []
    snapshot, found = differences(environment, python, root)
    assert sum(item.checked for item in snapshot.distributions) == 7 and not found


def test_what_compiling_and_installers_leave_is_no_difference(
    environment: Environment, python: Path, root: Path, site: Path, tiny: ModuleType, tmp_path: Path
) -> None:
    (site / "__pycache__").mkdir()
    (site / "foo" / "__pycache__").mkdir()
    (site / "foo" / "__pycache__" / "__init__.pyc").write_bytes(b"")
    for name in ("pip", "setuptools", "wheel"):
        shutil.unpack_archive(tiny.wheel(tmp_path / "w", name, "1")[0], site, "zip")
    assert lines(environment, python, root) == []


def test_another_python(environment: Environment, python: Path, root: Path) -> None:
    other = environment.model_copy(update={"python": "3.7"})
    (line,) = lines(other, python, root)
    assert line.startswith("python: expected 3.7, found 3.")


def test_missing(environment: Environment, python: Path, root: Path, site: Path) -> None:
    shutil.rmtree(site / "foo")
    shutil.rmtree(site / "foo-1.0.dist-info")
    assert lines(environment, python, root) == ["foo: expected 1.0, found none"]


def test_another_distribution_in_its_place_is_named(
    environment: Environment, python: Path, root: Path, site: Path, wheels: dict[str, tuple]
) -> None:
    shutil.rmtree(site / "foo")
    shutil.rmtree(site / "foo-1.0.dist-info")
    shutil.unpack_archive(wheels["fake-foo"][0], site, "zip")
    assert lines(environment, python, root) == [
        "foo: expected 1.0, found none (the module foo is that of fake-foo 9)",
        "fake-foo: expected nothing, found 9 (provides foo)",
    ]


def test_another_distribution_over_it_is_named(
    environment: Environment, python: Path, root: Path, site: Path, wheels: dict[str, tuple]
) -> None:
    shutil.unpack_archive(wheels["fake-foo"][0], site, "zip")
    assert lines(environment, python, root) == [
        "foo: found foo/__init__.py, which was changed after it was installed",
        "fake-foo: expected nothing, found 9 (provides foo; of these foo, which foo has too)",
    ]


@pytest.mark.parametrize("version", ["1.0+cu130", "1.0.1", "1.0rc1"])
def test_another_version(
    environment: Environment,
    python: Path,
    root: Path,
    site: Path,
    tiny: ModuleType,
    tmp_path: Path,
    version: str,
) -> None:
    shutil.rmtree(site / "foo-1.0.dist-info")
    shutil.unpack_archive(tiny.wheel(tmp_path / "w", "foo", version)[0], site, "zip")
    assert lines(environment, python, root) == [f"foo: expected 1.0, found {version}"]


def test_another_spelling_of_the_version_is_the_same(
    environment: Environment,
    python: Path,
    root: Path,
    site: Path,
    tiny: ModuleType,
    tmp_path: Path,
) -> None:
    locked = tiny.lock_line("Foo", "1.0.post1", "0" * 64)
    (root / environment.requirements).write_text(locked)
    shutil.rmtree(site / "bar")
    shutil.rmtree(site / "bar-2.0.dist-info")
    shutil.rmtree(site / "foo-1.0.dist-info")
    shutil.unpack_archive(tiny.wheel(tmp_path / "w", "foo", "1.0-1")[0], site, "zip")
    assert lines(environment, python, root) == []


def test_there_twice(
    environment: Environment, python: Path, root: Path, site: Path, tiny: ModuleType, tmp_path: Path
) -> None:
    shutil.unpack_archive(tiny.wheel(tmp_path / "w", "foo", "0.9", {"x.py": ""})[0], site, "zip")
    found = lines(environment, python, root)
    assert any(line.startswith("foo: expected one installation, found 2 (") for line in found)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda path: path.write_text("dat4"), "was changed after it was installed"),
        (lambda path: path.write_text(""), "was changed after it was installed"),
        (lambda path: path.unlink(), "is missing"),
        (lambda path: (path.unlink(), path.mkdir()), "is not a regular file"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "is not a regular file"),
    ],
)
def test_a_changed_file(
    environment: Environment, python: Path, root: Path, site: Path, harm, why: str
) -> None:
    harm(site / "bar" / "data.bin")
    assert lines(environment, python, root) == [f"bar: found bar/data.bin, which {why}"]
    assert lines(environment, python, root, digests=False) == []


def test_many_changed_files_are_counted(
    tiny: ModuleType, environment: Environment, tmp_path: Path, wheels: dict[str, tuple]
) -> None:
    root = tiny.artifact(tmp_path / "tree", tiny.lock_line("many", "1", wheels["many"][1]))
    python = tiny.venv(tmp_path / "v", wheels["many"][0])
    shutil.rmtree(tiny.site(tmp_path / "v") / "many")
    found = lines(environment, python, root)
    assert len(found) == MAX_FILES + 1
    assert found[-1] == "many: found 5 more files changed or missing"


@pytest.mark.parametrize("damage", ["remove", "binary", "weak"])
def test_a_record_that_says_nothing(
    environment: Environment, python: Path, root: Path, site: Path, damage: str
) -> None:
    record = site / "foo-1.0.dist-info" / "RECORD"
    if damage == "remove":
        record.unlink()
    elif damage == "binary":
        record.write_bytes(b"\xff\xfe\x00")
    else:
        record.write_text("foo/__init__.py,md5=AAAA,1\nfoo-1.0.dist-info/METADATA,,\n")
    found = lines(environment, python, root)
    if damage == "weak":
        assert found == ["foo: found foo/__init__.py, which has no SHA-2 digest in RECORD"]
    else:
        assert "foo: expected a RECORD, found none" in found[0]


def test_a_module_that_shadows_a_locked_one(
    environment: Environment, python: Path, root: Path, site: Path, tmp_path: Path
) -> None:
    early = tmp_path / "early"
    (early / "foo").mkdir(parents=True)
    (early / "foo" / "__init__.py").write_text("")
    (site / "a.pth").write_text(f"import sys; sys.path.insert(0, {str(early)!r})\n")
    found = lines(environment, python, root)
    assert found == [
        f"foo: expected module foo in {site}, found {early}/foo/__init__.py",
        f"{site}/a.pth: expected nothing, found a file of no distribution",
        f"{early}: expected nothing, found a directory that imports look into",
    ]


@pytest.mark.parametrize("name", ["sitecustomize.py", "bar.cpython-312-x86_64-linux-gnu.so"])
def test_a_file_of_no_distribution(
    environment: Environment, python: Path, root: Path, site: Path, name: str
) -> None:
    (site / name).write_text("")
    found = lines(environment, python, root)
    assert f"{site}/{name}: expected nothing, found a file of no distribution" in found


def test_an_extra_distribution(
    environment: Environment, python: Path, root: Path, site: Path, wheels: dict[str, tuple]
) -> None:
    shutil.unpack_archive(wheels["helper"][0], site, "zip")
    assert lines(environment, python, root) == [
        "helper: expected nothing, found 3 (provides helper)"
    ]


@pytest.mark.parametrize(
    ("direct", "accepted"),
    [
        ({"url": "file:///src", "dir_info": {"editable": True}}, False),
        ({"url": "https://example.org/foo.git", "vcs_info": {"vcs": "git"}}, False),
        ({"url": "file:///foo.whl", "archive_info": {"hashes": {"sha256": "0" * 64}}}, False),
        ({"url": "file:///foo.whl", "archive_info": {}}, False),
        ({"url": "file:///foo.whl", "archive_info": {"hashes": {"sha256": "LOCKED"}}}, True),
        ({"url": "file:///foo.whl", "archive_info": {"hash": "sha256=LOCKED"}}, True),
        ([], False),
    ],
)
def test_what_was_not_installed_from_a_locked_archive(
    environment: Environment,
    python: Path,
    root: Path,
    site: Path,
    wheels: dict[str, tuple],
    direct: object,
    accepted: bool,
) -> None:
    text = json.dumps(direct).replace("LOCKED", wheels["foo"][1])
    (site / "foo-1.0.dist-info" / "direct_url.json").write_text(text)
    found = lines(environment, python, root)
    assert [line.partition(":")[0] for line in found] == ([] if accepted else ["foo"])
    assert accepted or "expected an archive of the lock, found installed from" in found[0]


def test_metadata_without_a_name(
    environment: Environment, python: Path, root: Path, site: Path
) -> None:
    (site / "broken-1.dist-info").mkdir()
    (site / "broken-1.dist-info" / "METADATA").write_text("")
    (line,) = lines(environment, python, root)
    assert line.endswith(
        "broken-1.dist-info: expected nothing, found a distribution without a name"
    )


def test_only_requirements_whose_markers_hold_are_expected(
    environment: Environment, python: Path, root: Path, wheels: dict[str, tuple], tiny: ModuleType
) -> None:
    lock = root / environment.requirements
    lock.write_text(
        lock.read_text()
        + f"elsewhere==1; sys_platform == 'win32' --hash=sha256:{'0' * 64}\n"
        + f"helper==3; python_version < '3.0' --hash=sha256:{'0' * 64}\n"
    )
    assert lines(environment, python, root) == []


def test_a_bad_lock_is_said_before_the_interpreter_is_asked(
    environment: Environment, root: Path, tmp_path: Path
) -> None:
    (root / environment.requirements).write_text("foo\n")
    with pytest.raises(VerificationError) as caught:
        check_environment(environment, tmp_path / "none", root)
    assert caught.value.where == f"{root / environment.requirements}:1"


def test_files_below_no_locked_name_are_not_read(
    python: Path, site: Path, environment: Environment
) -> None:
    (site / "bar" / "data.bin").write_text("changed")
    snapshot = inspect_interpreter(python, {"foo"}, digests=True)
    assert not any(item.problems for item in snapshot.distributions)
