"""What nvcc -M names, and where it belongs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifact.build.closure import COMPILER, Library, parse_rule, read_closure
from artifact.build.failures import BuildFailed


def test_a_rule() -> None:
    text = "k.o : generated/k.cu \\\n  /usr/a\\ b.h \\\n    x/../y.h z$$.h \\\n  x/../y.h\n"
    assert parse_rule(text) == ("generated/k.cu", "/usr/a b.h", "x/../y.h", "z$.h")


@pytest.mark.parametrize("text", ["", "k.o :", "no rule", "k.o: \\\n"])
def test_what_is_no_rule(text: str) -> None:
    with pytest.raises(ValueError, match="not a rule"):
        parse_rule(text)


NAMES = st.text("abc/._-+ $#", min_size=1, max_size=8).filter(lambda name: name.strip() == name)


@given(st.lists(NAMES, min_size=1, unique=True))
def test_any_names_survive(names: list[str]) -> None:
    escaped = [name.replace(" ", "\\ ").replace("$", "$$") for name in names]
    assert parse_rule("o : " + " \\\n ".join(escaped) + "\n") == tuple(names)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for path in ("generated/k.cu", "runtime/r.h", "build/made.h", "runtime/deep/d.h"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    (tmp_path / "toolkit/crt").mkdir(parents=True)
    (tmp_path / "toolkit/cuda.h").write_text("cuda")
    (tmp_path / "toolkit/crt/host.h").write_text("host")
    (tmp_path / "stdio.h").write_text("stdio")
    return root


def rule(*names: object) -> str:
    return "k.o : " + " ".join(map(str, names)) + "\n"


def test_every_header_has_its_place(tree: Path, tmp_path: Path) -> None:
    toolkit = tmp_path / "toolkit"
    names = ("generated/k.cu", "generated/../runtime/r.h", toolkit / "cuda.h",
             toolkit / "crt/host.h", tmp_path / "stdio.h")  # fmt: skip
    libraries = [Library("toolkit", toolkit, "13.0.88")]
    found = read_closure(tree, "generated/k.cu", rule(*names), libraries, "build")
    assert found.tree == {"generated/k.cu": b"generated/k.cu", "runtime/r.h": b"runtime/r.h"}
    assert [(lib.name, lib.files, lib.version) for lib in found.libraries] == [
        ("system", 1, None), ("toolkit", 2, "13.0.88"),
    ]  # fmt: skip
    # Wherever the toolkit is, the same headers have the same digest; another byte is another.
    moved = toolkit.rename(tmp_path / "elsewhere")
    again = [Library("toolkit", moved, "13.0.88")]
    names = ("generated/k.cu", moved / "crt/host.h", moved / "cuda.h")
    other = read_closure(tree, "generated/k.cu", rule(*names), again, "build")
    assert other.libraries[0].blake3 == found.libraries[1].blake3
    (moved / "cuda.h").write_text("CUDA")
    changed = read_closure(tree, "generated/k.cu", rule(*names), again, "build")
    assert changed.libraries[0].blake3 != other.libraries[0].blake3


def test_a_toolkit_within_the_tree_is_no_part_of_it(tree: Path) -> None:
    (tree / "venv").mkdir()
    (tree / "venv/cuda.h").write_text("cuda")
    libraries = [Library("toolkit", tree / "venv", None)]
    found = read_closure(
        tree, "generated/k.cu", rule("generated/k.cu", "venv/cuda.h"), libraries, "build"
    )
    assert list(found.tree) == ["generated/k.cu"] and found.has("toolkit")


def test_headers_of_the_tree_stay_pinned_files_for_another_compiler(tree: Path) -> None:
    libraries = [Library(COMPILER, tree / "runtime", None)]
    names = rule("generated/k.cu", "runtime/r.h")
    found = read_closure(tree, "generated/k.cu", names, libraries, "build")
    assert "runtime/r.h" in found.tree and not found.has(COMPILER)


@pytest.mark.parametrize(
    ("name", "words"), [("build/made.h", "belongs to no artifact"), ("gone.h", "cannot be read")]
)
def test_headers_that_nobody_pins(tree: Path, name: str, words: str) -> None:
    with pytest.raises(BuildFailed, match=words):
        read_closure(tree, "generated/k.cu", rule("generated/k.cu", name), [], "build")
