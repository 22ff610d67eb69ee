from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from artifact.envs import lock as lock_module
from artifact.envs.condalock import read_conda_lock
from artifact.envs.lock import content_hash, lock_conda, lock_wheels
from artifact.envs.requirements import read_lock
from artifact.envs.specification import read_specification
from artifact.errors import EnvironmentUnmet, UsageError, VerificationError
from artifact.model.backend import Environment

SPECIFICATION = """\
channels:
  - conda-forge
dependencies:
  - python={python}
  - pip
  - pip:
      - top==2.0  # the reason why
"""


@pytest.fixture
def root(tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    for version in ("1.0", "1.1"):
        tiny.wheel(folder, "base", version)
    tiny.wheel(folder, "top", "2.0", requires=["base>=1", "never; sys_platform == 'win32'"])
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    root = tiny.artifact(tmp_path / "tree")
    (root / "envs/tiny/requirements.lock").unlink()
    text = SPECIFICATION.format(python=tiny.PYTHON)
    (root / "envs/tiny/environment.yml").write_text(text)
    return root


def names(root: Path) -> list[str]:
    return [str(pin) for pin in read_lock(root / "envs/tiny/requirements.lock")]


# --- wheels ------------------------------------------------------------------------------


def test_wheels_are_resolved_with_their_digests_and_reasons(
    environment: Environment, root: Path, tiny: ModuleType, tmp_path: Path
) -> None:
    changes = lock_wheels(environment, root)
    assert [str(change) for change in changes] == ["wheels: + base 1.1", "wheels: + top 2.0"]
    text = (root / "envs/tiny/requirements.lock").read_text()
    assert names(root) == ["base==1.1", "top==2.0"]
    assert "\n# the reason why\ntop==2.0 \\\n" in text
    assert str(tmp_path) not in text and "://" not in text
    assert tiny.wheel(tmp_path / "again", "base", "1.1")[1] in text
    before = text
    assert lock_wheels(environment, root) == ()
    assert (root / "envs/tiny/requirements.lock").read_text() == before


def test_nothing_moves_that_need_not(
    environment: Environment, root: Path, tiny: ModuleType
) -> None:
    lock_wheels(environment, root)
    tiny.wheel(root.parent / "wheels", "base", "1.2")
    assert lock_wheels(environment, root) == ()
    changes = lock_wheels(environment, root, upgrade=True)
    assert [str(change) for change in changes] == ["wheels: ~ base 1.1 -> 1.2"]


def test_a_wheel_that_was_made_again_is_a_change(
    environment: Environment, root: Path, tiny: ModuleType
) -> None:
    lock_wheels(environment, root)
    tiny.wheel(root.parent / "wheels", "base", "1.1", {"base/__init__.py": "x = 1\n"})
    changes = lock_wheels(environment, root, upgrade=True)
    assert [str(change) for change in changes] == ["wheels: ~ base 1.1, other files"]


@pytest.mark.parametrize("wheel", [("base", "0.1"), None])
def test_what_cannot_be_resolved_changes_nothing(
    environment: Environment, root: Path, tiny: ModuleType, wheel: tuple[str, str] | None
) -> None:
    lock_wheels(environment, root)
    before = (root / "envs/tiny/requirements.lock").read_bytes()
    specification = root / "envs/tiny/environment.yml"
    more = "      - base==0.1\n" if wheel else "      - gone==1.0\n"
    if wheel:
        tiny.wheel(root.parent / "wheels", *wheel)
    specification.write_text(specification.read_text() + more)
    with pytest.raises(EnvironmentUnmet, match="uv could not lock") as caught:
        lock_wheels(environment, root)
    assert any("base" in line or "gone" in line for line in caught.value.details)
    assert (root / "envs/tiny/requirements.lock").read_bytes() == before


def test_without_uv(environment: Environment, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    with pytest.raises(EnvironmentUnmet, match="a tool is missing") as caught:
        lock_wheels(environment, root)
    assert caught.value.expected == "uv"
    assert caught.value.next == "pip install '.[env]'"


def test_without_a_specification(environment: Environment, root: Path) -> None:
    bare = environment.model_copy(update={"specification": None})
    with pytest.raises(UsageError, match="no specification"):
        lock_wheels(bare, root)
    (root / "envs/tiny/environment.yml").unlink()
    with pytest.raises(VerificationError, match="missing"):
        lock_wheels(environment, root)


# --- conda -------------------------------------------------------------------------------


@pytest.fixture
def channel(tiny: ModuleType, tmp_path: Path) -> str:
    """A channel that the test builds. Its name is not that of the specification's channel."""
    folder = tmp_path / "mirror"
    older = f"{tiny.PYTHON}.1"
    tiny.conda_package(folder, "python", older, depends=["libtiny >=1,<2", "__glibc >=2.17"])
    tiny.conda_package(folder, "python", f"{tiny.PYTHON}.0", depends=["libtiny"])
    tiny.conda_package(folder, "python", "4.0.0", depends=["libtiny"])
    tiny.conda_package(folder, "libtiny", "1.5", depends=["__unix"])
    tiny.conda_package(folder, "libtiny", "2.0")
    tiny.conda_package(folder, "pip", "25.0", subdir="noarch", depends=["python >=3.9"])
    tiny.conda_package(folder, "unused", "1.0")
    return tiny.index(folder)


def test_conda_lock_solves_a_channel_that_it_can_reach(
    environment: Environment,
    root: Path,
    channel: str,
    tiny: ModuleType,
    tmp_path: Path,
    quiet_conda_lock: None,
) -> None:
    changes = lock_conda(environment, root, channel_url=channel)
    assert [str(change) for change in changes] == [
        "conda: + libtiny 1.5",
        "conda: + pip 25.0",
        f"conda: + python {tiny.PYTHON}.1",
    ]
    path = root / "envs/tiny/conda-lock.yml"
    text = path.read_text()
    assert "://" not in text and "mirror" not in text and str(tmp_path) not in text
    lock = read_conda_lock(path)
    assert (lock.channel, lock.platform) == ("conda-forge", "linux-64")
    assert {package.name: package.subdir for package in lock.packages} == {
        "libtiny": "linux-64",
        "pip": "noarch",
        "python": "linux-64",
    }
    # What conda-lock hashed is the specification, not where the channel happened to be.
    specification = read_specification(root / "envs/tiny/environment.yml")
    assert lock.content_hash == content_hash(specification)
    from conda_lock.lockfile import parse_conda_lock_file

    assert len(parse_conda_lock_file(path).package) == 3
    assert lock_conda(environment, root, channel_url=channel) == ()
    assert path.read_text() == text


def test_a_channel_that_cannot_be_solved_changes_nothing(
    environment: Environment, root: Path, channel: str
) -> None:
    specification = root / "envs/tiny/environment.yml"
    specification.write_text(specification.read_text().replace("- pip\n", "- nowhere\n"))
    with pytest.raises(EnvironmentUnmet, match="conda-lock could not lock") as caught:
        lock_conda(environment, root, channel_url=channel)
    assert "nowhere" in caught.value.details[0]
    assert not (root / "envs/tiny/conda-lock.yml").exists()


def test_a_channel_that_is_not_there(environment: Environment, root: Path, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnmet, match="conda-lock could not lock") as caught:
        lock_conda(environment, root, channel_url=(tmp_path / "gone").as_uri())
    assert caught.value.details
    assert not (root / "envs/tiny/conda-lock.yml").exists()


@pytest.mark.parametrize("module", ["conda_lock", "rattler"])
def test_without_its_tools(
    environment: Environment, root: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    real = lock_module.importlib.util.find_spec
    monkeypatch.setattr(
        lock_module.importlib.util, "find_spec", lambda name: None if name == module else real(name)
    )
    with pytest.raises(EnvironmentUnmet, match="a tool is missing") as caught:
        lock_conda(environment, root)
    assert caught.value.next == "pip install '.[env]'"


def test_a_resolver_that_does_not_end(
    environment: Environment, root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = tmp_path / "uv"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(lock_module, "_uv", lambda: str(slow))
    monkeypatch.setattr(lock_module, "TIMEOUT", 0.5)
    with pytest.raises(EnvironmentUnmet, match="did not come to an end"):
        lock_wheels(environment, root)


def record(name: str, version: str) -> dict[str, object]:
    return {
        "name": name,
        "version": version,
        "url": f"https://example.org/conda-forge/linux-64/{name}-{version}-0.conda",
        "md5": "0" * 32,
        "sha256": "1" * 64,
    }


@pytest.mark.usefixtures("quiet_conda_lock")
@pytest.mark.parametrize("wrapped", [True, False])
def test_records_of_a_solved_environment_take_the_place_of_solving(
    environment: Environment, root: Path, tmp_path: Path, tiny: ModuleType, wrapped: bool
) -> None:
    records = [record("python", f"{tiny.PYTHON}.5"), record("pip", "25.3")]
    path = tmp_path / "records.json"
    path.write_text(json.dumps({"packages": records, "other": 1} if wrapped else records))
    assert len(lock_conda(environment, root, records=path)) == 2
    lock = read_conda_lock(root / "envs/tiny/conda-lock.yml")
    assert [package.name for package in lock.packages] == ["pip", "python"]
    assert "example.org" not in (root / "envs/tiny/conda-lock.yml").read_text()


@pytest.mark.usefixtures("quiet_conda_lock")
@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('{"package": []}', "NoneType"),
        ("7", "int"),
        (json.dumps([record("pip", "1"), record("python", "2.7.18")]), "2.7.18"),
        (json.dumps([record("pip", "1")]), "none"),
    ],
)
def test_records_of_something_else(
    environment: Environment, root: Path, tmp_path: Path, content: str, found: str
) -> None:
    path = tmp_path / "records.json"
    path.write_text(content)
    with pytest.raises(VerificationError) as caught:
        lock_conda(environment, root, records=path)
    assert caught.value.found == found
    assert not (root / "envs/tiny/conda-lock.yml").exists()


def test_an_environment_without_a_conda_layer(environment: Environment, root: Path) -> None:
    bare = environment.model_copy(update={"conda_lock": None})
    with pytest.raises(UsageError, match="no conda layer"):
        lock_conda(bare, root)
