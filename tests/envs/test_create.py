from __future__ import annotations

import ensurepip
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from artifact.envs import condabase
from artifact.envs import create as create_module
from artifact.envs.check import check_environment
from artifact.envs.condalock import from_records, render_conda_lock
from artifact.envs.create import UNFINISHED, create_environment
from artifact.errors import EnvironmentUnmet, UsageError, VerificationError
from artifact.model.backend import Environment

ALONE = "include-system-site-packages = false"
PIP_WHEEL = next((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"), None)


@pytest.fixture
def wheels(tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple]:
    folder = tmp_path / "wheels"
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return {
        "base": tiny.wheel(folder, "base", "1.0"),
        "top": tiny.wheel(folder, "top", "2.0", requires=["base>=1"]),
    }


@pytest.fixture
def root(tiny: ModuleType, tmp_path: Path, wheels: dict[str, tuple]) -> Path:
    locked = tiny.lock_line("base", "1.0", wheels["base"][1])
    locked += tiny.lock_line("top", "2.0", "0" * 64, wheels["top"][1])
    return tiny.artifact(tmp_path / "tree", locked)


@pytest.fixture
def quick_pip(monkeypatch: pytest.MonkeyPatch, tiny: ModuleType) -> None:
    """pip is unpacked into new environments; tests/cli/test_env.py has it installed."""
    if PIP_WHEEL is None:
        pytest.skip("this Python has no bundled pip")
    monkeypatch.setattr(
        create_module, "_venv", lambda base, into, *rest: tiny.venv(into, PIP_WHEEL)
    )


@pytest.mark.usefixtures("quick_pip")
def test_an_environment_is_made_from_its_lock_and_equals_it(
    environment: Environment, root: Path, tmp_path: Path, tiny: ModuleType
) -> None:
    said: list[str] = []
    into = tmp_path / "deep" / "env"
    python = create_environment(environment, root, into, note=said.append)
    assert python == into / "bin" / "python"
    assert check_environment(environment, python, root) == ()
    assert (tiny.site(into) / "top" / "__init__.py").is_file()
    assert not (into / UNFINISHED).exists()
    assert any("base" in line for line in said)
    # What is there is never written over.
    with pytest.raises(UsageError, match="something where"):
        create_environment(environment, root, into)
    assert check_environment(environment, python, root) == ()
    (tiny.site(into) / "base" / "__init__.py").write_text("VERSION = 'mine'\n")
    assert len(check_environment(environment, python, root)) == 1


@pytest.mark.usefixtures("quick_pip")
def test_pip_must_find_the_locked_bytes(
    environment: Environment, root: Path, tmp_path: Path, tiny: ModuleType
) -> None:
    tiny.wheel(tmp_path / "wheels", "base", "1.0", {"base/__init__.py": "VERSION = 'other'\n"})
    with pytest.raises(EnvironmentUnmet, match="pip could not install") as caught:
        create_environment(environment, root, tmp_path / "env")
    assert any("DO NOT MATCH THE HASHES" in line for line in caught.value.details)
    assert not (tmp_path / "env").exists()


@pytest.mark.usefixtures("quick_pip")
def test_pip_must_agree_that_the_lock_is_whole(
    environment: Environment,
    root: Path,
    tmp_path: Path,
    tiny: ModuleType,
    wheels: dict[str, tuple],
) -> None:
    lock = tiny.lock_line("top", "2.0", wheels["top"][1])
    (root / environment.requirements).write_text(lock)
    (tmp_path / "env").mkdir()
    with pytest.raises(EnvironmentUnmet, match="pip could not install") as caught:
        create_environment(environment, root, tmp_path / "env")
    assert any("base" in line for line in caught.value.details)
    assert list((tmp_path / "env").iterdir()) == []


# The cases below make no real environment: a copy of one is quicker than a new one.
@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch, tiny: ModuleType, wheels: dict[str, tuple]):
    """Creates without pip: the wheels are unpacked where pip would install them."""

    def make(base: Path, into: Path, environment: Environment, note: Callable[[str], None]) -> None:
        tiny.venv(into, *(wheel for wheel, _ in wheels.values()))

    monkeypatch.setattr(create_module, "_venv", make)
    monkeypatch.setattr(create_module, "_install", lambda *arguments: None)


@pytest.mark.usefixtures("no_pip")
def test_what_was_left_unfinished_is_made_anew(
    environment: Environment, root: Path, tmp_path: Path
) -> None:
    into = tmp_path / "env"
    (into / "bin").mkdir(parents=True)
    (into / "bin" / "junk").touch()
    (into / "link").symlink_to(root)
    (into / UNFINISHED).touch()
    create_environment(environment, root, into)
    assert not (into / "bin" / "junk").exists() and not (into / "link").exists()
    assert (root / "manifests").is_dir()


@pytest.mark.usefixtures("no_pip")
def test_an_environment_that_differs_is_not_taken_for_whole(
    environment: Environment,
    root: Path,
    tmp_path: Path,
    tiny: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    into = tmp_path / "env"

    def spoil(*arguments: object) -> None:
        (tiny.site(into) / "base" / "__init__.py").write_text("")

    monkeypatch.setattr(create_module, "_install", spoil)
    with pytest.raises(EnvironmentUnmet, match="not what its lock says") as caught:
        create_environment(environment, root, into)
    assert "base/__init__.py, which was changed" in caught.value.details[0]
    assert (into / UNFINISHED).exists()


@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError])
def test_whatever_ends_it_nothing_is_left(
    environment: Environment,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: type[BaseException],
) -> None:
    def cut(base: Path, into: Path, *rest: object) -> None:
        (into / "half").mkdir()
        raise end

    monkeypatch.setattr(create_module, "_venv", cut)
    with pytest.raises(end):
        create_environment(environment, root, tmp_path / "env")
    assert not (tmp_path / "env").exists()


@pytest.mark.parametrize("kind", ["file", "full", "dangling"])
def test_what_stands_in_the_way_stays(
    environment: Environment, root: Path, tmp_path: Path, kind: str
) -> None:
    into = tmp_path / "env"
    if kind == "file":
        into.touch()
    elif kind == "full":
        into.mkdir()
        (into / "mine").touch()
    else:
        into.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError) as caught:
        create_environment(environment, root, into)
    assert caught.value.where == str(into)
    assert into.is_symlink() or into.exists()
    assert kind != "full" or [entry.name for entry in into.iterdir()] == ["mine"]


def test_an_interpreter_of_another_version_is_refused(
    environment: Environment, root: Path, tmp_path: Path
) -> None:
    other = environment.model_copy(update={"python": "3.7"})
    with pytest.raises(EnvironmentUnmet, match="not of the locked version") as caught:
        create_environment(other, root, tmp_path / "env", python=Path(sys.executable))
    assert caught.value.expected == "Python 3.7"
    assert not (tmp_path / "env").exists()


def test_no_interpreter_of_the_version(
    environment: Environment, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    other = environment.model_copy(update={"python": "3.99"})
    with pytest.raises(EnvironmentUnmet, match=r"no Python 3\.99"):
        create_environment(other, root, tmp_path / "env")


def test_a_python_without_venv(
    environment: Environment, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poor = tmp_path / "python"
    poor.write_text('#!/bin/sh\necho "No module named venv" >&2\nexit 1\n')
    poor.chmod(0o755)
    monkeypatch.setattr(create_module, "_of_version", lambda *arguments: None)
    with pytest.raises(EnvironmentUnmet, match="virtual environment") as caught:
        create_environment(environment, root, tmp_path / "env", python=poor)
    assert caught.value.details == ("No module named venv",)


def test_a_bad_lock_is_said_before_anything_is_made(
    environment: Environment, root: Path, tmp_path: Path
) -> None:
    (root / environment.requirements).write_text("base\n")
    with pytest.raises(VerificationError):
        create_environment(environment, root, tmp_path / "env")
    assert not (tmp_path / "env").exists()


# --- the conda layer ---------------------------------------------------------------------


@pytest.fixture
def channel(tiny: ModuleType, tmp_path: Path) -> Path:
    """A channel whose python is a virtual environment of ours, and whose pip is real."""
    if PIP_WHEEL is None:
        pytest.skip("this Python has no bundled pip")
    channel = tmp_path / "conda-forge"
    base = Path(sys.executable).resolve()
    tiny.conda_package(
        channel,
        "python",
        f"{tiny.PYTHON}.99",
        depends=["libtiny >=1"],
        files={"pyvenv.cfg": f"home = {base.parent}\n{ALONE}\n".encode()},
        links={"bin/python": str(base)},
    )
    tiny.conda_package(channel, "libtiny", "1.5", files={"lib/libtiny.txt": b"tiny"})
    with zipfile.ZipFile(PIP_WHEEL) as archive:
        pip = {
            f"lib/python{tiny.PYTHON}/site-packages/{name}": archive.read(name)
            for name in archive.namelist()
            if not name.endswith("/")
        }
    tiny.conda_package(channel, "pip", "1", subdir="noarch", depends=["python"], files=pip)
    return channel


def conda_lock(channel: Path) -> bytes:
    import hashlib

    records = []
    for path in sorted(channel.glob("*/*.tar.bz2")):
        name, version, _ = path.name.removesuffix(".tar.bz2").rsplit("-", 2)
        data = path.read_bytes()
        records.append(
            {
                "name": name,
                "version": version,
                "url": f"{path.parent.parent.name}/{path.parent.name}/{path.name}",
                "md5": hashlib.md5(data).hexdigest(),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
        )
    return render_conda_lock(
        from_records(records, channel="conda-forge", platform="linux-64", content_hash="c")
    )


def test_the_interpreter_can_come_from_the_conda_layer(
    environment: Environment, root: Path, tmp_path: Path, tiny: ModuleType, channel: Path
) -> None:
    (root / "envs/tiny/conda-lock.yml").write_bytes(conda_lock(channel))
    url = tiny.index(channel)
    into = tmp_path / "env"
    python = create_environment(environment, root, into, channel_url=url)
    assert (into / "lib/libtiny.txt").read_text() == "tiny"
    assert (into / "conda-meta").is_dir()
    assert check_environment(environment, python, root) == ()


def test_a_package_that_is_not_the_locked_one_is_not_installed(
    environment: Environment, root: Path, tmp_path: Path, tiny: ModuleType
) -> None:
    channel = tmp_path / "conda-forge"
    tiny.conda_package(channel, "python", "3", files={"bin/python": b"one"})
    (root / "envs/tiny/conda-lock.yml").write_bytes(conda_lock(channel))
    tiny.conda_package(channel, "python", "3", files={"bin/python": b"two"})
    with pytest.raises(EnvironmentUnmet, match="lacks packages") as caught:
        create_environment(environment, root, tmp_path / "env", channel_url=tiny.index(channel))
    assert caught.value.details == ("python-3-0.tar.bz2",)
    assert not (tmp_path / "env").exists()


def test_a_package_that_was_changed_behind_its_record_is_not_installed(
    environment: Environment, root: Path, tmp_path: Path, tiny: ModuleType
) -> None:
    channel = tmp_path / "conda-forge"
    path = tiny.conda_package(channel, "python", "3", files={"bin/python": b"one"})
    (root / "envs/tiny/conda-lock.yml").write_bytes(conda_lock(channel))
    url = tiny.index(channel)
    saved = shutil.copy(path, tmp_path / "saved")
    tiny.conda_package(channel, "python", "3", files={"bin/python": b"two"})
    assert Path(saved).read_bytes() != path.read_bytes()
    with pytest.raises(EnvironmentUnmet, match="could not be installed"):
        create_environment(environment, root, tmp_path / "env", channel_url=url)
    assert not (tmp_path / "env").exists()


def test_a_channel_that_is_not_there(
    environment: Environment, root: Path, tmp_path: Path, tiny: ModuleType
) -> None:
    channel = tmp_path / "conda-forge"
    tiny.conda_package(channel, "python", "3")
    (root / "envs/tiny/conda-lock.yml").write_bytes(conda_lock(channel))
    gone = (tmp_path / "gone").as_uri()
    with pytest.raises(EnvironmentUnmet) as caught:
        create_environment(environment, root, tmp_path / "env", channel_url=gone)
    assert caught.value.where == gone


def test_without_py_rattler(
    environment: Environment,
    root: Path,
    tmp_path: Path,
    tiny: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    channel = tmp_path / "conda-forge"
    tiny.conda_package(channel, "python", "3")
    (root / "envs/tiny/conda-lock.yml").write_bytes(conda_lock(channel))
    monkeypatch.setattr(condabase.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentUnmet, match="a tool is missing") as caught:
        create_environment(environment, root, tmp_path / "env", channel_url="file:///x")
    assert caught.value.next == "pip install '.[env]'"
    assert not (tmp_path / "env").exists()


def test_an_environment_without_a_conda_layer(
    environment: Environment, root: Path, tmp_path: Path
) -> None:
    bare = environment.model_copy(update={"conda_lock": None})
    with pytest.raises(UsageError, match="no conda layer"):
        create_environment(bare, root, tmp_path / "env", channel_url="file:///x")


def test_a_dead_stand_in_on_the_path_is_passed_by(
    environment: Environment, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As version managers put them there for versions that are not installed."""
    other = environment.model_copy(update={"python": "3.99"})

    def program(folder: str, text: str) -> Path:
        path = tmp_path / folder / "python3.99"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    shim = program("shims", "echo 'pyenv: python3.99: command not found' >&2; exit 127")
    liar = program("liar", "echo Python 3.9.9")
    folders = [str(path.parent) for path in (shim, liar)]
    monkeypatch.setenv("PATH", ":".join(["", *folders, "/usr/bin", "/bin"]))
    with pytest.raises(EnvironmentUnmet, match=r"no Python 3\.99") as caught:
        create_environment(other, root, tmp_path / "env")
    assert caught.value.details == (
        f"{shim}: exit status 127: pyenv: python3.99: command not found",
        f"{liar}: it says 'Python 3.9.9'",
    )
    assert "--python PATH" in str(caught.value.next)
    good = program("good", "echo Python 3.99.1")
    monkeypatch.setenv("PATH", ":".join([*folders, str(good.parent), "/usr/bin", "/bin"]))
    assert create_module._find_python(other) == good
