"""Generated files: made by our compiler or another, and proved to be what they should be."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from blake3 import blake3

from artifact.build import compiler as compilers
from artifact.build.compiler import Compiler, find_compiler
from artifact.build.failures import BuildFailed
from artifact.build.regenerate import (
    Generated,
    choose_kernels,
    generate,
    require_same,
    stamp,
    write,
)
from artifact.errors import EnvironmentUnmet, UsageError, VerificationError
from artifact.integrity.chain import read_stamp
from artifact.integrity.documents import load_manifest


def make(root: Path, name: str, compiler: Compiler) -> Generated:
    manifest = load_manifest(root)
    (kernel,) = choose_kernels(manifest, (name,))
    return generate(root, manifest, kernel, compiler)


@pytest.fixture
def other(native_tools: Path) -> Compiler:
    return find_compiler(native_tools / "choreo")


def test_the_stamp_says_what_it_was_made_of(native_artifact: Path, other: Compiler) -> None:
    made = make(native_artifact, "one", other)
    found = read_stamp(made.data)
    source = (native_artifact / "kernels/one.co").read_bytes()
    assert (found.source, found.source_blake3) == ("kernels/one.co", blake3(source).hexdigest())
    assert found.flags == ("-t", "stand-in", "-DWIDTH=4")
    assert found.compiler.startswith("choreo 1.2.3 sha256:")
    assert str(native_artifact).encode() not in made.data
    assert made.same


def test_flags_with_blanks_survive(tmp_path: Path) -> None:
    data = stamp("k.co", "0" * 64, "c 1", ("-DX=a b", "-t"))
    assert read_stamp(data).flags == ("-DX=a b", "-t")


def test_a_check_writes_nothing_and_shows_the_first_lines(
    native_artifact: Path, other: Compiler
) -> None:
    require_same(make(native_artifact, "one", other))
    path = native_artifact / "generated/one.cu"
    path.write_text(path.read_text().replace("FACTOR 2", "FACTOR 9"))
    before = path.read_bytes()
    with pytest.raises(VerificationError, match="is not what the compiler makes") as caught:
        require_same(make(native_artifact, "one", other))
    assert "-#define FACTOR 9" in caught.value.details
    assert "+#define FACTOR 2" in caught.value.details
    assert caught.value.next == "artifact regenerate one"
    assert path.read_bytes() == before
    path.write_text("x\n" * 5000)
    with pytest.raises(VerificationError) as long:
        require_same(make(native_artifact, "one", other))
    assert len(long.value.details) == 21 and long.value.details[-1] == "..."
    path.unlink()
    with pytest.raises(VerificationError, match="is missing"):
        require_same(make(native_artifact, "one", other))


def test_a_check_names_every_file_that_differs(native_artifact: Path, other: Compiler) -> None:
    one, two = (native_artifact / f"generated/{name}.cu" for name in ("one", "two"))
    one.write_text(one.read_text().replace("FACTOR 2", "FACTOR 9"))
    two.unlink()
    made = [make(native_artifact, name, other) for name in ("one", "two")]
    with pytest.raises(VerificationError, match="2 generated files are not") as caught:
        require_same(*made)
    assert caught.value.where == "generated/one.cu, generated/two.cu"
    assert caught.value.next == "artifact regenerate one two"
    details = caught.value.details
    assert details[0].startswith("generated/one.cu, of kernels/one.co: a generated file is not")
    assert "-#define FACTOR 9" in details
    assert details[-1] == "generated/two.cu: a generated file is missing"
    require_same()


def test_what_nobody_could_make_again_is_kept(native_artifact: Path, other: Compiler) -> None:
    path = native_artifact / "generated/one.cu"
    locked = path.read_bytes()
    source = native_artifact / "kernels/one.co"
    source.write_text(source.read_text().replace("factor 2", "factor 3"))
    made = make(native_artifact, "one", other)
    assert write(native_artifact, made, [blake3(locked).hexdigest()]) is None
    assert path.read_bytes() == made.data
    path.write_bytes(b"by hand")
    made = make(native_artifact, "one", other)
    copy = write(native_artifact, made, [blake3(locked).hexdigest()])
    assert copy is not None and copy.read_bytes() == b"by hand"
    path.write_bytes(b"by hand once more")
    second = write(native_artifact, make(native_artifact, "one", other), [])
    assert second is not None and second.read_bytes() == b"by hand once more"
    assert copy.read_bytes() == b"by hand"
    assert write(native_artifact, make(native_artifact, "one", other), []) is None


def test_our_own_compiler_is_the_default(
    native_artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from artifact import choreo

    asked = []

    def compile_text(text: str, path: str, defines: dict[str, str]) -> choreo.Compiled:
        asked.append((text, path, defines))
        return choreo.Compiled("// made\n")

    monkeypatch.setattr(choreo, "compile_text", compile_text)
    made = make(native_artifact, "one", find_compiler())
    text = (native_artifact / "kernels/one.co").read_text()
    # The root's path is in nothing that is written: the compiler is told a relative one.
    assert asked == [(text, "kernels/one.co", {"WIDTH": "4"})]
    assert read_stamp(made.data).compiler == f"{choreo.NAME} {choreo.VERSION}"
    assert made.data.endswith(b"// made\n")


def test_names_of_kernels_and_of_backends(native_artifact: Path) -> None:
    manifest = load_manifest(native_artifact)
    assert [k.name for k in choose_kernels(manifest, None)] == ["one", "two"]
    assert [k.name for k in choose_kernels(manifest, ("two", "two"))] == ["two"]
    with pytest.raises(UsageError, match="no kernel has this name"):
        choose_kernels(manifest, ("three",))
    with pytest.raises(UsageError, match="no kernel: nothing"):
        choose_kernels(manifest.model_copy(update={"kernels": ()}), None)


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo 'k.co:1:1: error: wrong'; exit 1", "does not take the kernel"),
        ("exit 0", "wrote nothing"),
        ("kill -9 $$", "does not take the kernel"),
    ],
)
def test_another_compiler_that_fails(
    native_artifact: Path, tmp_path: Path, text: str, words: str
) -> None:
    compiler = find_compiler(program(tmp_path / "c", text))
    with pytest.raises(BuildFailed, match=words):
        make(native_artifact, "one", compiler)


def test_the_command_that_failed_can_be_typed(native_artifact: Path, tmp_path: Path) -> None:
    compiler = find_compiler(program(tmp_path / "a compiler", "exit 7"))
    with pytest.raises(BuildFailed) as failed:
        make(native_artifact, "one", compiler)
    assert failed.value.next is not None
    assert shlex.split(failed.value.next)[0] == str(tmp_path / "a compiler")


def test_a_compiler_that_writes_a_stamp_of_its_own(native_artifact: Path, tmp_path: Path) -> None:
    script = 'for o; do :; done; echo "// artifact-source: x blake3:0" > "$o"'
    compiler = find_compiler(program(tmp_path / "c", script))
    with pytest.raises(VerificationError, match="a stamp of its own"):
        make(native_artifact, "one", compiler)


def test_a_compiler_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnmet, match="no compiler of this name"):
        find_compiler(tmp_path / "none")
    (tmp_path / "text").write_text("no program")
    with pytest.raises(EnvironmentUnmet) as caught:
        find_compiler(tmp_path / "text")
    assert caught.value.found == "a file that cannot be executed"
    with pytest.raises(EnvironmentUnmet, match="headers of the compiler"):
        find_compiler(None, tmp_path / "none")


def test_the_headers_of_another_compiler(tmp_path: Path) -> None:
    (tmp_path / "checkout/runtime").mkdir(parents=True)
    (tmp_path / "checkout/build").mkdir()
    script = program(tmp_path / "checkout/build/choreo", "exit 1")
    assert find_compiler(script).include == tmp_path / "checkout/runtime"
    (tmp_path / "mine").mkdir()
    assert find_compiler(script, tmp_path / "mine").include == tmp_path / "mine"
    assert find_compiler(None).include is None


def test_a_compiler_without_a_version_is_named_by_its_digest(tmp_path: Path) -> None:
    one = find_compiler(program(tmp_path / "c", "exit 1"))
    two = find_compiler(program(tmp_path / "c", "exit 2"))
    assert one.name != two.name
    assert one.name.startswith("c sha256:")
    wordy = find_compiler(
        program(tmp_path / "c", "printf 'C++ of /home/x, version v2.1-rc1\\n\\033[2J'")
    )
    assert wordy.name.startswith("c 2.1-rc1 sha256:")


def test_macros_of_flags() -> None:
    flags = ("-t", "cute", "-DN", "-DM=4", "-DT=a=b")
    assert compilers._defines(flags) == {"N": "1", "M": "4", "T": "a=b"}
