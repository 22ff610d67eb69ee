from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact.envs.condalock import (
    explicit,
    from_records,
    parse_conda_lock,
    read_conda_lock,
    render_conda_lock,
)
from artifact.envs.lock import content_hash
from artifact.envs.specification import read_specification
from artifact.errors import VerificationError

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ("main", "triton-ws")
pytestmark = pytest.mark.usefixtures("quiet_conda_lock")
MD5, SHA256 = "0" * 32, "1" * 64


def record(name: str, /, **changes: object) -> dict[str, object]:
    return {
        "name": name,
        "version": "1.0",
        "dependencies": {"__glibc": ">=2.17"},
        "url": f"https://user:secret@example.org/t/token/some/conda-forge/linux-64/{name}-1.0-0.conda",
        "md5": MD5,
        "sha256": SHA256,
        **changes,
    }


def lock_of(*records: dict[str, object]):
    return from_records(records, channel="conda-forge", platform="linux-64", content_hash="c")


def test_records_become_a_lock_without_hosts() -> None:
    lock = lock_of(
        record("zlib"),
        record("python", dependencies={"zlib": ">=1", "__glibc": ""}),
        record("tzdata", url="https://example.org/conda-forge/noarch/tzdata-2025b-h1.tar.bz2"),
    )
    assert [package.name for package in lock.packages] == ["python", "tzdata", "zlib"]
    data = render_conda_lock(lock, header=["made by a test"])
    assert data.startswith(b"# made by a test\nversion: 1\n")
    assert not re.search(rb"://|example|secret|token", data)
    assert parse_conda_lock(data, "x") == lock
    assert render_conda_lock(parse_conda_lock(data, "x"), header=["made by a test"]) == data


def test_the_host_is_put_back_where_it_is_installed_from() -> None:
    lock = lock_of(record("zlib"))
    assert explicit(lock, "https://mirror.example.org/conda-forge/") == (
        "@EXPLICIT\n"
        f"https://mirror.example.org/conda-forge/linux-64/zlib-1.0-0.conda#sha256:{SHA256}\n"
    )


@pytest.mark.parametrize(
    ("changes", "place", "expected"),
    [
        ({"md5": None}, "records[0].hash.md5", "32 hexadecimal"),
        ({"sha256": None}, "records[0].hash.sha256", "64 hexadecimal"),
        ({"sha256": "g" * 64}, "records[0].hash.sha256", "64 hexadecimal"),
        ({"hash": {"md5": MD5}}, "records[0].hash.sha256", "64 hexadecimal"),
        ({"hash": "x"}, "records[0].hash.md5", "32 hexadecimal"),
        ({"name": ""}, "records[0].name", "a text"),
        ({"version": 1.0}, "records[0].version", "a text"),
        ({"manager": "pip"}, "records[0].manager", "conda"),
        ({"platform": "osx-64"}, "records[0].platform", "linux-64"),
        ({"url": "https://x.org/c/osx-64/a-1-0.conda"}, "records[0].url", "linux-64"),
        ({"url": "https://x.org/c/linux-64/a.exe"}, "records[0].url", "linux-64"),
        ({"url": None}, "records[0].url", "linux-64"),
        ({"dependencies": ["zlib"]}, "records[0].dependencies", "names and versions"),
        ({"dependencies": {"gone": ""}}, "records: a", "its dependency gone"),
    ],
)
def test_a_record_that_lacks_something(
    changes: dict[str, object], place: str, expected: str
) -> None:
    with pytest.raises(VerificationError) as caught:
        lock_of(record("a", **changes))
    assert caught.value.where == place
    assert expected in (caught.value.expected or "")


def test_each_package_stands_once() -> None:
    with pytest.raises(VerificationError, match="conda lock"):
        lock_of(record("a"), record("a"))


@pytest.mark.parametrize(
    "text",
    [
        "version: 2\n",
        "[]\n",
        "a: [\n",
        "version: 1\n",
        "version: 1\nmetadata: {}\npackage: []\n",
        "version: 1\nmetadata: {platforms: [a, b], channels: [], sources: []}\npackage: []\n",
        "version: 1\nmetadata: 7\npackage: []\n",
        "&a [*a]\n",
        "!!python/object/apply:os.system [true]\n",
    ],
)
def test_what_is_no_lock_is_one_error(text: str) -> None:
    with pytest.raises(VerificationError) as caught:
        parse_conda_lock(text.encode(), "some.yml")
    assert (caught.value.where or "").startswith("some.yml")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_lock_is_a_lock_or_one_error(data: st.DataObject) -> None:
    whole = render_conda_lock(lock_of(record("a"), record("b", dependencies={"a": ""})))
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + 1 :]
    try:
        parse_conda_lock(damaged, "x")
    except VerificationError as error:
        assert error.where is not None


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_conda_lock_itself_reads_the_committed_locks(name: str) -> None:
    from conda_lock.lockfile import parse_conda_lock_file
    from conda_lock.lockfile.v1.models import Lockfile

    path = ROOT / "envs" / name / "conda-lock.yml"
    ours = read_conda_lock(path)
    theirs = parse_conda_lock_file(path)
    assert isinstance(theirs.to_v1(), Lockfile)
    assert len(theirs.package) == len(ours.packages) == 26
    for package in theirs.package:
        assert re.fullmatch(r"[0-9a-f]{32}", package.hash.md5 or "")
        assert re.fullmatch(r"[0-9a-f]{64}", package.hash.sha256 or "")
        assert package.to_fetch_action()["fn"] == package.url.rpartition("/")[2]
    versions = {package.name: package.version for package in theirs.package}
    assert {"pip", "setuptools", "wheel"} <= versions.keys()
    assert versions["python"].startswith("3.12.")


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_committed_locks_belong_to_their_specifications(name: str) -> None:
    specification = read_specification(ROOT / "envs" / name / "environment.yml")
    lock = read_conda_lock(ROOT / "envs" / name / "conda-lock.yml")
    assert lock.content_hash == content_hash(specification)
    names = {package.name for package in lock.packages}
    assert {re.split("[=<> ]", spec)[0] for spec in specification.conda} <= names


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_committed_locks_hold_package_facts_only(name: str) -> None:
    import yaml
    from conda_lock.lockfile.v1.models import LockedDependency

    document = yaml.safe_load((ROOT / "envs" / name / "conda-lock.yml").read_text())
    assert document["metadata"].keys() == {"content_hash", "channels", "platforms", "sources"}
    for package in document["package"]:
        assert package.keys() <= set(LockedDependency.model_fields)
        assert package["url"].startswith("conda-forge/")


def test_records_are_not_changed_by_reading_them() -> None:
    records = [record("a")]
    before = copy.deepcopy(records)
    lock_of(*records)
    assert records == before
