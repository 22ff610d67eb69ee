from __future__ import annotations

from pathlib import Path

import pytest

from artifact.envs.requirements import read_lock
from artifact.envs.specification import read_specification
from artifact.errors import VerificationError

ROOT = Path(__file__).resolve().parents[2]

GOOD = """\
channels:
  - conda-forge
dependencies:
  - python=3.12
  - pip:
      - foo==1.0  # because: it works
      - Bar_Baz==2.0
"""


def read(tmp_path: Path, text: str):
    path = tmp_path / "environment.yml"
    path.write_text(text)
    return read_specification(path)


def test_reads_both_layers_and_the_reasons(tmp_path: Path) -> None:
    specification = read(tmp_path, GOOD)
    assert specification.channel == "conda-forge"
    assert specification.conda == ("python=3.12",)
    assert specification.wheels == ("foo==1.0", "Bar_Baz==2.0")
    assert specification.notes == {"foo": "because: it works"}


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("channels:\n  - conda-forge\n", "", "channels"),
        ("- conda-forge", "- https://example.org/conda-forge", "channels"),
        ("- conda-forge", "- conda-forge\n  - other", "channels"),
        ("dependencies:", "requirements:", "dependencies"),
        ("- python=3.12", "- 3.12", "dependencies[0]"),
        ("- pip:", "- npm:", "dependencies[1]"),
        ("foo==1.0", "foo", "dependencies[1].pip[0]"),
        ("foo==1.0", "foo>=1.0", "dependencies[1].pip[0]"),
        ("foo==1.0", "foo==1.*", "dependencies[1].pip[0]"),
        ("foo==1.0", "foo==1.0,!=2", "dependencies[1].pip[0]"),
        ("foo==1.0", "foo @ https://example.org/foo.whl", "dependencies[1].pip[0]"),
        ("foo==1.0", "-r other.txt", "dependencies[1].pip[0]"),
        ("foo==1.0", "7", "dependencies[1].pip[0]"),
        ("channels:", "channels: [", ""),
    ],
)
def test_names_the_place_of_what_is_wrong(tmp_path: Path, old: str, new: str, place: str) -> None:
    assert old in GOOD
    with pytest.raises(VerificationError) as caught:
        read(tmp_path, GOOD.replace(old, new))
    where = caught.value.where or ""
    assert where == str(tmp_path / "environment.yml") + (f": {place}" if place else "")


@pytest.mark.parametrize("name", ["main", "triton-ws"])
def test_the_committed_locks_hold_what_their_specifications_ask(name: str) -> None:
    specification = read_specification(ROOT / "envs" / name / "environment.yml")
    pins = {str(pin) for pin in read_lock(ROOT / "envs" / name / "requirements.lock")}
    assert set(specification.wheels) <= pins
    assert "python=3.12" in specification.conda
