"""Builds with a stand-in for nvcc: what is made, what is not made twice, and what fails."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artifact.bench import buildphase
from artifact.bench.buildphase import BuildOptions
from artifact.build import record
from artifact.build.accept import require_executable
from artifact.build.building import exclusive
from artifact.build.failures import BuildFailed, NotBuilt, StaleBuild, ToolchainDiffers
from artifact.build.plan import choose, make_units
from artifact.errors import ArtifactError, EnvironmentUnmet, ExitCode, VerificationError
from artifact.integrity.documents import load_manifest
from artifact.integrity.lockfile import write_lock
from artifact.model.build import HEADERS, BuildFacts


def build(
    root: Path,
    *names: str,
    unlocked: bool = False,
    done: Callable[[str], None] = lambda name: None,
    **options: Any,
) -> BuildFacts:
    """As ``artifact build NAMES`` with ``options``, or ``--skip-build`` of a run."""
    manifest = load_manifest(root)
    units = make_units(manifest, choose(manifest, names or None))
    chosen = BuildOptions(**options)
    verified = buildphase.verify_tree(root, manifest, units, chosen, unlocked)
    if verified.facts is not None:
        return verified.facts
    facts, _ = buildphase.make(
        root, manifest, units, chosen, verified, unlocked=unlocked,
        done=lambda unit, _: done(unit.backend), failed=lambda unit: done(f"not {unit.backend}"),
        say=lambda text: None,
    )  # fmt: skip
    return facts


def calls(tools: Path) -> list[str]:
    """The sources that the stand-in compiled, in order."""
    counter = tools / "bin/calls"
    return counter.read_text().split() if counter.exists() else []


def hows(facts: BuildFacts) -> list[str]:
    return [kernel.how for kernel in facts.kernels]


def edit(root: Path, path: str, *lines: str) -> None:
    """Add lines to a pinned file, and pin it."""
    file = root / path
    file.write_text(file.read_text() + "\n".join([*lines, ""]))
    write_lock(root)


def test_an_executable_its_record_and_its_log(native_artifact: Path, native_tools: Path) -> None:
    told: list[str] = []
    facts = build(native_artifact, done=told.append)
    assert sorted(told) == ["one", "two"]
    assert hows(facts) == ["built", "built"]
    one = facts.kernels[0].build
    assert (one.nvcc, one.front_end, one.compiler[:12]) == ("13.0.88", "13.0.88", "choreo 1.2.3")
    assert one.nvcc_flags == ("-std=c++17", "-Xptxas", "-v")
    assert list(one.headers) == ["runtime/worker.hpp"]
    assert [(e.symbol, e.measured, e.spill_load_bytes) for e in one.entries] == [
        ("kernel_of_one", True, 0), ("oracle", False, 16),
    ]  # fmt: skip
    assert one.sass == {"HGMMA": 1} and facts.kernels[1].build.sass is None
    assert facts.kernels[0].bit_identical is None
    assert facts.toolkit is not None
    assert (facts.toolkit.origin, facts.toolkit.headers) == ("CUDA_HOME", None)
    folder = native_artifact / "build"
    # For direct use as well: it says what it was told by hand.
    done = subprocess.run(
        [folder / "one"], env={"STAND_IN_N": "9"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "one: N=9 M=2, factor 2\n"
    log = (folder / "one-nvcc.log").read_text()
    assert log.startswith("$ ") and "Used 168 registers" in log
    text = (folder / "one.json").read_text()
    for place in (native_artifact, native_tools, Path.home()):
        assert str(place) not in text


def test_what_is_built_is_not_built_again(native_artifact: Path, native_tools: Path) -> None:
    build(native_artifact)
    before = calls(native_tools)
    assert sorted(before) == ["generated/one.cu", "generated/two.cu"]
    assert hows(build(native_artifact)) == ["up to date", "up to date"]
    assert calls(native_tools) == before
    edit(native_artifact, "runtime/worker.hpp", "// another byte")
    assert hows(build(native_artifact, "two")) == ["built"]
    (native_artifact / "build/two").write_bytes(b"no executable")
    assert hows(build(native_artifact, "two")) == ["built"]
    edit(native_artifact, "manifests/artifact.toml", "# flags")
    text = (native_artifact / "manifests/artifact.toml").read_text()
    (native_artifact / "manifests/artifact.toml").write_text(text.replace('"-O2"', '"-O1"'))
    write_lock(native_artifact)
    assert hows(build(native_artifact)) == ["built", "built"]
    assert hows(build(native_artifact)) == ["up to date", "up to date"]


def test_two_trees_give_one_machine_code(native_artifact: Path, tmp_path: Path) -> None:
    """Also where the path of the source is in it, as nvcc has it in internal names."""
    edit(native_artifact, "generated/two.cu", "//! static")
    other = tmp_path / "elsewhere/deeper"
    shutil.copytree(native_artifact, other)
    one, two = build(native_artifact, "two"), build(other, "two")
    assert one.kernels[0].build.cubin_sha256 == two.kernels[0].build.cubin_sha256
    assert b"/artifact-build-" in (other / "build/two.cubin").read_bytes()


@pytest.mark.parametrize(
    ("word", "error", "found"),
    [
        ("fail", BuildFailed, "status 2"),
        ("spill", BuildFailed, "8 bytes of spill stores"),
        ("warn", BuildFailed, "C7510"),
        ("front-end", ToolchainDiffers, "the front end that nvcc starts is 13.2.51"),
    ],
)
def test_a_build_that_fails(
    native_artifact: Path, word: str, error: type[ArtifactError], found: str
) -> None:
    edit(native_artifact, "generated/two.cu", f"//! {word}")
    told: list[str] = []
    with pytest.raises(error) as caught:
        build(native_artifact, "two", done=told.append)
    assert found in str(caught.value.found)
    assert told == ["not two"]
    assert (native_artifact / "build/two-nvcc.log").is_file()
    assert not (native_artifact / "build/two").exists()


def test_a_source_that_changes_while_it_is_compiled_is_not_built(
    native_artifact: Path, native_tools: Path
) -> None:
    """Results would name a source that the executable was not made of."""
    script = native_tools / "choreo.py"
    script.write_text(script.read_text() + "\nopen(source, 'a').write('// formatted\\n')\n")
    source = native_artifact / "kernels/one.co"
    source.write_text(source.read_text().replace("factor 2", "factor 3"))
    with pytest.raises(BuildFailed, match="made of another source"):
        build(native_artifact, "one", regenerate=True, choreo=native_tools / "choreo")
    assert not (native_artifact / "build/one").exists()


def test_the_flags_of_the_manifest_are_those_of_the_generated_file(native_artifact: Path) -> None:
    build(native_artifact, "one")
    manifest = native_artifact / "manifests/artifact.toml"
    manifest.write_text(manifest.read_text().replace("-DWIDTH=4", "-DWIDTH=5"))
    write_lock(native_artifact)
    with pytest.raises(BuildFailed, match="other flags than the manifest's") as failed:
        build(native_artifact, "one")
    assert (failed.value.expected, failed.value.found) == (
        "-t stand-in -DWIDTH=5", "-t stand-in -DWIDTH=4",
    )  # fmt: skip
    with pytest.raises(StaleBuild) as stale:
        build(native_artifact, "one", skip=True)
    assert stale.value.found == "the manifest's flags of the kernel compiler are others"


def test_what_a_build_needs_beside_its_bytes(native_artifact: Path) -> None:
    """It can be started, and the report that every message points to is there."""
    build(native_artifact, "one")
    log = native_artifact / "build/one-nvcc.log"
    words = log.read_text()
    # A build that fails says so in the same place; the one before has lost its report.
    generated = native_artifact / "generated/one.cu"
    before = generated.read_text()
    edit(native_artifact, "generated/one.cu", "//! fail")
    with pytest.raises(BuildFailed):
        build(native_artifact, "one")
    assert "identifier is undefined" in log.read_text()
    generated.write_text(before)
    write_lock(native_artifact)
    with pytest.raises(StaleBuild) as stale:
        build(native_artifact, "one", skip=True)
    assert stale.value.found == "build/one-nvcc.log was changed after it was built"
    assert hows(build(native_artifact, "one")) == ["built"]
    assert log.read_text() == words
    (native_artifact / "build/one").chmod(0o644)
    with pytest.raises(StaleBuild) as stale:
        build(native_artifact, "one", skip=True)
    assert stale.value.found == "build/one cannot be executed"
    assert hows(build(native_artifact, "one")) == ["built"]


def test_skip_build_after_other_instructions_are_expected(native_artifact: Path) -> None:
    """Nobody has looked for them in the machine code that is there."""
    build(native_artifact, "one")
    manifest = native_artifact / "manifests/artifact.toml"
    text = manifest.read_text().replace('sass = ["HGMMA"]', 'sass = ["HGMMA", "UTMALDG"]')
    manifest.write_text(text)
    write_lock(native_artifact)
    with pytest.raises(StaleBuild) as stale:
        build(native_artifact, "one", skip=True)
    assert stale.value.found == "the manifest expects other instructions in the machine code"


def test_a_build_that_was_accepted_with_other_tools_is_made_again(
    native_artifact: Path, native_tools: Path
) -> None:
    """That the front end is another one shows only when it has run: reuse would pass it over."""
    edit(native_artifact, "generated/two.cu", "//! front-end")
    facts = build(native_artifact, "two", unlocked=True)
    assert len(facts.differences) == 1
    with pytest.raises(ToolchainDiffers, match="toolchain"):
        build(native_artifact, "two")
    script = native_tools / "bin/nvcc.py"
    script.write_text(script.read_text().replace('"13.2.51"', "VERSION"))
    facts = build(native_artifact, "two")
    assert (hows(facts), facts.differences) == (["built"], ())


def test_a_kernel_that_lacks_its_instructions(native_artifact: Path) -> None:
    path = native_artifact / "generated/one.cu"
    path.write_text(path.read_text().replace("//! sass HGMMA", "//"))
    write_lock(native_artifact)
    with pytest.raises(BuildFailed, match="lacks instructions") as caught:
        build(native_artifact, "one")
    assert caught.value.found == "no HGMMA"


def test_without_cuobjdump_the_instructions_cannot_be_seen(
    native_artifact: Path, native_tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artifact.build.toolchain.packaged", lambda *a: None)
    (native_tools / "bin/cuobjdump").unlink()
    monkeypatch.setenv("PATH", f"{shutil.which('g++') and Path(shutil.which('g++')).parent}")
    with pytest.raises(EnvironmentUnmet, match="no cuobjdump"):
        build(native_artifact, "one")
    # A kernel of which none are expected needs no such tool.
    assert hows(build(native_artifact, "two")) == ["built"]


def test_a_header_that_is_not_pinned(native_artifact: Path) -> None:
    (native_artifact / "elsewhere").mkdir()
    (native_artifact / "elsewhere/new.h").write_text("// new\n")
    manifest = native_artifact / "manifests/artifact.toml"
    manifest.write_text(manifest.read_text().replace('["build/"', '["elsewhere/", "build/"'))
    edit(native_artifact, "generated/two.cu", '#include "../elsewhere/new.h"')
    with pytest.raises(BuildFailed, match="the lock pins") as caught:
        build(native_artifact, "two")
    assert caught.value.found == "elsewhere/new.h is not pinned"
    assert caught.value.exit_code == ExitCode.VERIFICATION


def test_another_toolkit_is_a_choice(native_artifact: Path, native_tools: Path) -> None:
    script = native_tools / "bin/nvcc.py"
    script.write_text(script.read_text().replace('"13.0.88"', '"13.1.80"'))
    with pytest.raises(ToolchainDiffers) as caught:
        build(native_artifact, "one")
    assert caught.value.found == "nvcc is 13.1.80, the manifest pins 13.0.88"
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    facts = build(native_artifact, "one", unlocked=True)
    assert facts.differences == ("nvcc is 13.1.80, the manifest pins 13.0.88",)
    # What was built with it stays what it is.
    with pytest.raises(ToolchainDiffers):
        build(native_artifact, "one", skip=True)
    assert build(native_artifact, "one", skip=True, unlocked=True).differences == facts.differences
    assert any("13.1.80" in line for line in write_lock(native_artifact).unbuilt)


def test_a_kernel_that_includes_cutlass_needs_it(
    native_artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artifact.build.headers.packaged", lambda *a: None)
    edit(native_artifact, "generated/two.cu", "#include <cute/tensor.hpp>")
    with pytest.raises(EnvironmentUnmet, match="no CUTLASS headers"):
        build(native_artifact, "two")
    include = tmp_path / "cutlass/include"
    for name in ("cutlass/version.h", "cute/tensor.hpp"):
        (include / name).parent.mkdir(parents=True, exist_ok=True)
        (include / name).write_text("#define CUTLASS_MAJOR 4\n" if "version" in name else "")
    facts = build(native_artifact, "two", cutlass=tmp_path / "cutlass")
    assert facts.toolkit is not None and "--cutlass" in str(facts.toolkit.headers)
    assert [lib.name for lib in facts.kernels[0].build.libraries] == ["cutlass", "system"]
    # A log is published: it names no folder of this machine.
    log = (native_artifact / "build/two-nvcc.log").read_text()
    assert "-I$CUTE_HOME/include" in log and str(tmp_path) not in log
    # It is named only to the kernel that includes it.
    build(native_artifact, "one", cutlass=tmp_path / "cutlass")
    log = (native_artifact / "build/one-nvcc.log").read_text()
    assert "CUTE_HOME" not in log and log.startswith("$ $CUDA_HOME/bin/nvcc ")


def test_a_log_names_nvcc_by_its_toolkit_also_where_path_finds_a_link(
    native_artifact: Path, native_tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "links/nvcc"
    link.parent.mkdir()
    link.write_text(f'#!/bin/sh\nexec {native_tools / "bin/nvcc"} "$@"\n')
    link.chmod(0o755)
    monkeypatch.delenv("CUDA_HOME")
    monkeypatch.setenv("PATH", f"{link.parent}:{os.environ['PATH']}")
    build(native_artifact, "one")
    log = (native_artifact / "build/one-nvcc.log").read_text()
    assert log.startswith("$ $CUDA_HOME/bin/nvcc ") and str(tmp_path) not in log


def test_skip_build_takes_exactly_what_the_record_says(native_artifact: Path) -> None:
    with pytest.raises(NotBuilt) as missing:
        build(native_artifact, "one", skip=True)
    assert missing.value.exit_code == ExitCode.ENVIRONMENT
    assert missing.value.next == "artifact build one"
    build(native_artifact, "one")
    facts = build(native_artifact, "one", skip=True)
    assert hows(facts) == ["as recorded"] and facts.toolkit is None
    executable = native_artifact / "build/one"
    executable.write_bytes(executable.read_bytes() + b"\0")
    with pytest.raises(StaleBuild) as changed:
        build(native_artifact, "one", skip=True)
    assert changed.value.found == "build/one was changed after it was built"
    assert changed.value.exit_code == ExitCode.VERIFICATION
    executable.unlink()
    with pytest.raises(NotBuilt):
        build(native_artifact, "one", skip=True)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("runtime/worker.hpp", "runtime/worker.hpp was changed since"),
        ("generated/one.cu", "generated/one.cu was changed since"),
    ],
)
def test_skip_build_after_a_pinned_change(native_artifact: Path, path: str, words: str) -> None:
    build(native_artifact, "one")
    edit(native_artifact, path, "// another byte")
    with pytest.raises(StaleBuild) as caught:
        build(native_artifact, "one", skip=True)
    assert caught.value.found == words


def test_skip_build_after_other_flags(native_artifact: Path) -> None:
    build(native_artifact, "one")
    path = native_artifact / "manifests/artifact.toml"
    path.write_text(path.read_text().replace('"-std=c++17"', '"-std=c++20"'))
    write_lock(native_artifact)
    with pytest.raises(StaleBuild) as caught:
        build(native_artifact, "one", skip=True)
    assert caught.value.found == "the manifest's flags of nvcc are others"


def test_skip_build_after_a_change_that_nobody_pinned(native_artifact: Path) -> None:
    build(native_artifact)
    header = native_artifact / "runtime/worker.hpp"
    header.write_text(header.read_text() + "// another byte\n")
    with pytest.raises(VerificationError, match="not what the lock pins"):
        build(native_artifact, "one", skip=True)


@pytest.mark.parametrize("text", ["", "{", '{"record_version": 1}', "null"])
def test_a_record_that_is_none(native_artifact: Path, text: str) -> None:
    build(native_artifact, "one")
    (native_artifact / "build/one.json").write_text(text)
    with pytest.raises(NotBuilt):
        build(native_artifact, "one", skip=True)
    assert hows(build(native_artifact, "one")) == ["built"]


def test_a_record_of_another_kernel(native_artifact: Path) -> None:
    build(native_artifact)
    folder = native_artifact / "build"
    for ending in ("", ".json", ".cubin", "-nvcc.log"):
        shutil.copy(folder / f"two{ending}", folder / f"one{ending}")
    with pytest.raises(StaleBuild) as caught:
        build(native_artifact, "one", skip=True)
    assert caught.value.found == "it is a build of kernels/two.co as two"


def test_the_executable_is_held_to_its_record_when_it_is_started(native_artifact: Path) -> None:
    kernel = build(native_artifact, "one").kernels[0].build
    manifest = load_manifest(native_artifact)
    (unit,) = make_units(manifest, choose(manifest, ("one",)))
    require_executable(native_artifact, unit, kernel.executable_sha256)
    (native_artifact / "build/one").write_bytes(b"another")
    with pytest.raises(StaleBuild, match="not the one that was built"):
        require_executable(native_artifact, unit, kernel.executable_sha256)


def test_two_builds_at_once(native_artifact: Path, native_tools: Path) -> None:
    problems: list[BaseException] = []

    def once() -> None:
        try:
            build(native_artifact)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=once) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert problems == []
    # The second and the third found what the first had made.
    assert sorted(calls(native_tools)) == ["generated/one.cu", "generated/two.cu"]
    assert hows(build(native_artifact, skip=True)) == ["as recorded"] * 2


def test_a_killed_build_leaves_no_record_and_no_lock(
    start_artifact: Callable[..., subprocess.Popen[str]], native_artifact: Path, native_tools: Path
) -> None:
    edit(native_artifact, "generated/two.cu", "//! sleep")
    process = start_artifact("build", "two", cwd=native_artifact)
    asleep = native_tools / "bin/asleep"
    _wait(asleep.exists, process)
    number, place = asleep.read_text().split()
    orphan = int(number)
    process.kill()
    process.wait(60)
    try:
        assert not (native_artifact / "build/two.json").exists()
        path = native_artifact / "generated/two.cu"
        path.write_text(path.read_text().replace("//! sleep\n", ""))
        write_lock(native_artifact)
        assert hows(build(native_artifact, "two")) == ["built"]
    finally:
        os.kill(orphan, signal.SIGKILL)
        # The next build of the same bytes would have taken it over; there is none.
        shutil.rmtree(place)


def test_a_signal_ends_the_compilers(
    start_artifact: Callable[..., subprocess.Popen[str]], native_artifact: Path, native_tools: Path
) -> None:
    edit(native_artifact, "generated/two.cu", "//! sleep")
    process = start_artifact("build", cwd=native_artifact)
    asleep = native_tools / "bin/asleep"
    _wait(asleep.exists, process)
    child = int(asleep.read_text().split()[0])
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED, err
    assert not _alive(child)


def _wait(condition: Callable[[], object], process: subprocess.Popen[Any]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, "it ended"
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_build_variables_of_the_caller_do_not_reach_the_compiler(
    native_artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CPATH", str(native_artifact / "nowhere"))
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", "/nowhere")
    first = build(native_artifact, "two").kernels[0].build
    monkeypatch.delenv("CPATH")
    again = build(native_artifact, "two")
    assert hows(again) == ["up to date"] and again.kernels[0].build == first


def test_the_lock_pins_the_machine_code_of_a_build_of_these_files(native_artifact: Path) -> None:
    first = write_lock(native_artifact)
    assert [line.rpartition(": ")[2] for line in first.unbuilt] == ["it was not built here"] * 2
    made = build(native_artifact)
    outcome = write_lock(native_artifact)
    assert outcome.unbuilt == ()
    pins = {link.kernel: link.build for link in outcome.lock.chain}
    one = made.kernels[0].build
    assert pins["one"] is not None
    assert pins["one"].cubin_sha256 == one.cubin_sha256
    assert pins["one"].headers == ("runtime/worker.hpp",)
    assert pins["one"].nvcc == "13.0.88"
    # What differs from one machine to the next is not pinned.
    assert set(pins["one"].libraries) == {lib.name for lib in one.libraries} - {"system"}
    assert write_lock(native_artifact).changes == ()
    again = build(native_artifact)
    assert [kernel.bit_identical for kernel in again.kernels] == [True, True]
    # A build that is gone keeps its pin, as long as its files are the same.
    shutil.rmtree(native_artifact / "build")
    assert write_lock(native_artifact).changes == ()
    edit(native_artifact, "runtime/worker.hpp", "// another byte")
    lock = json.loads((native_artifact / "manifests/lock.json").read_text())
    assert [link["build"] for link in lock["chain"]] == [None, None]


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (('role = "compiles the', 'role = "makes code of the'), True),
        (('version = "13.0.88"', 'version = "13.1.80"'), False),
        (("\n[[dependencies]]", f"\n[[dependencies]]\nname = '{HEADERS}'\nversion = '4.3.0'\n"
          "role = 'x'\n\n[[dependencies]]"), False),
    ],
)  # fmt: skip
def test_a_pin_of_other_tools_than_the_manifest_names_is_not_kept(
    native_artifact: Path, change: tuple[str, str], kept: bool
) -> None:
    build(native_artifact)
    before = write_lock(native_artifact).lock
    assert all(link.build for link in before.chain)
    shutil.rmtree(native_artifact / "build")
    path = native_artifact / "manifests/artifact.toml"
    text = path.read_text()
    assert text.count(change[0]) == 1
    path.write_text(text.replace(*change))
    outcome = write_lock(native_artifact)
    assert [link.build for link in outcome.lock.chain] == (
        [link.build for link in before.chain] if kept else [None, None]
    )
    assert len(outcome.unbuilt) == (0 if kept else 2)


def test_a_pin_whose_tools_nothing_says_is_not_kept(native_artifact: Path) -> None:
    build(native_artifact)
    write_lock(native_artifact)
    shutil.rmtree(native_artifact / "build")
    (native_artifact / "manifests/provenance.json").write_text("{}")
    assert [link.build for link in write_lock(native_artifact).lock.chain] == [None, None]


@pytest.mark.parametrize("spoil", ["cubin", "flags", "record", "generated"])
def test_a_build_of_other_files_is_not_pinned(native_artifact: Path, spoil: str) -> None:
    build(native_artifact, "two")
    folder = native_artifact / "build"
    if spoil == "cubin":
        (folder / "two.cubin").write_bytes(b"another")
    elif spoil == "record":
        (folder / "two.json").write_text("{}")
    elif spoil == "flags":
        path = native_artifact / "manifests/artifact.toml"
        path.write_text(path.read_text().replace('"-O2"', '"-O1"'))
    else:
        edit(native_artifact, "generated/two.cu", "// another byte")
    outcome = write_lock(native_artifact)
    (two,) = (link for link in outcome.lock.chain if link.kernel == "two")
    assert two.build is None
    assert any("of two is not pinned" in line for line in outcome.unbuilt)


def test_another_machine_code_than_the_pinned_one_is_said(
    native_artifact: Path, native_tools: Path
) -> None:
    build(native_artifact, "two")
    write_lock(native_artifact)
    shutil.rmtree(native_artifact / "build")
    script = native_tools / "bin/nvcc.py"
    script.write_text(script.read_text().replace('f"Function : ', 'f" Function : '))
    (kernel,) = build(native_artifact, "two").kernels
    assert kernel.bit_identical is False
    assert "NOT the pinned cubin" in buildphase.words(kernel)


def test_a_tree_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "build").write_text("a file")
    with pytest.raises(EnvironmentUnmet, match="nothing can be built here"), exclusive(tmp_path):
        raise AssertionError


def test_a_key_depends_on_everything(native_artifact: Path) -> None:
    from dataclasses import replace

    from artifact.build.closure import Closure
    from artifact.model.build import LibraryHeaders

    manifest = load_manifest(native_artifact)
    (unit,) = make_units(manifest, choose(manifest, ("one",)))
    library = LibraryHeaders(name="toolkit", version="1", files=1, blake3="0" * 64)
    closure = Closure({"a": b"1"}, (library,))
    other = library.model_copy(update={"blake3": "1" * 64})
    keys = [
        record.key_of(unit, closure, "13.0.88", ()),
        record.key_of(unit, closure, "13.0.89", ()),
        record.key_of(unit, closure, "13.0.88", ("-L/x",)),
        record.key_of(unit, Closure({"a": b"2"}, (library,)), "13.0.88", ()),
        record.key_of(unit, Closure({"a": b"1"}, (other,)), "13.0.88", ()),
        record.key_of(replace(unit, nvcc_flags=("-O3",)), closure, "13.0.88", ()),
        record.key_of(replace(unit, symbol=None), closure, "13.0.88", ()),
    ]
    assert len(set(keys)) == len(keys)
