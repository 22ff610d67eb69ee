"""The builds of a run folder: what in it must agree, and what says that it does not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artifact.bench import runner
from artifact.bench.buildcheck import build_findings
from artifact.bench.buildphase import BuildOptions
from artifact.bench.check import load_results
from artifact.bench.plan import Options
from artifact.bench.progress import Progress
from artifact.integrity.documents import load_manifest
from artifact.integrity.lockfile import write_lock
from artifact.model.results import RunResults


class Silent(Progress):
    """Says nothing."""

    def phase(self, phase: str, steps: int) -> None: ...

    def step(self, label: str, remaining: float | None = None) -> None: ...

    def message(self, text: str) -> None: ...

    def close(self) -> None: ...


def run(root: Path, **options: Any) -> RunResults:
    chosen = Options(backends=("one",), rounds=2, build=BuildOptions(**options))
    return runner.run(chosen, root, load_manifest(root), Silent()).results


@pytest.fixture
def folder(native_artifact: Path) -> Path:
    """A run of one backend whose machine code is pinned."""
    run(native_artifact)
    write_lock(native_artifact)
    shutil.rmtree(native_artifact / "results")
    run(native_artifact, skip=True)
    (found,) = (native_artifact / "results").iterdir()
    return found


def change(results: RunResults, **fields: Any) -> RunResults:
    assert results.build is not None
    (kernel,) = results.build.kernels
    build = kernel.build.model_copy(update=fields)
    kernels = (kernel.model_copy(update={"build": build}),)
    return results.model_copy(
        update={"build": results.build.model_copy(update={"kernels": kernels})}
    )


def without_bit(results: RunResults) -> RunResults:
    assert results.build is not None
    kernels = (results.build.kernels[0].model_copy(update={"bit_identical": None}),)
    return results.model_copy(
        update={"build": results.build.model_copy(update={"kernels": kernels})}
    )


def spilled(results: RunResults) -> RunResults:
    assert results.build is not None
    entry = results.build.kernels[0].build.entries[0]
    return change(results, entries=(entry.model_copy(update={"spill_load_bytes": 4}),))


CASES: list[tuple[Callable[[RunResults], RunResults], str]] = [
    (lambda r: r.model_copy(update={"build": None}), "has no build of it"),
    (lambda r: change(r, cubin_sha256="0" * 64), "cubin_sha256 is not its build's"),
    (lambda r: change(r, executable_sha256="0" * 64), "module_sha256 is not its build's"),
    (lambda r: change(r, generated_blake3="0" * 64), "is not what ran as one"),
    (lambda r: change(r, source_blake3="0" * 64), "made of another kernels/one.co"),
    (lambda r: change(r, backend="three"), "is a build of no backend"),
    (without_bit, "bit_identical: is not what"),
    (spilled, "kernel_of_one spills"),
]


def test_what_does_not_agree_is_found(folder: Path) -> None:
    results = load_results(folder)
    assert results.build is not None and results.build.kernels[0].bit_identical is True
    assert list(build_findings(folder, results)) == []
    for spoil, words in CASES:
        found = [finding.message for finding in build_findings(folder, spoil(results))]
        assert any(words in message for message in found), (words, found)


def test_a_modified_run_names_what_it_changed(folder: Path) -> None:
    results = load_results(folder)
    changed = change(results, source_blake3="0" * 64)
    artifact = changed.artifact.model_copy(update={"modified": ("kernels/one.co",)})
    assert list(build_findings(folder, changed.model_copy(update={"artifact": artifact}))) == []


def test_without_a_lock_the_rest_is_still_held(folder: Path) -> None:
    results = load_results(folder)
    (folder / "lock.json").write_text("{}")
    assert list(build_findings(folder, results)) == []
    assert list(build_findings(folder, change(results, cubin_sha256="0" * 64)))


def test_a_worker_that_names_another_executable(native_artifact: Path) -> None:
    """The runner knows the digest of what it started; a worker that says otherwise is refused."""
    from artifact.bench.failures import KernelChanged

    header = native_artifact / "runtime/worker.hpp"
    text = header.read_text()
    header.write_text(text.replace('\\"spills\\":0', '\\"spills\\":0,\\"module_sha256\\":\\"x\\"'))
    assert header.read_text() != text
    write_lock(native_artifact)
    with pytest.raises(KernelChanged, match="another kernel than was built"):
        run(native_artifact)


def test_the_table_of_builds(folder: Path) -> None:
    from artifact.report.builds import builds

    results = load_results(folder)
    table = builds(results)
    assert table is not None
    (row,) = table.rows
    said = dict(zip(table.headers, (cell.text for cell in row), strict=True))
    assert said["Registers"] == "168" and said["Spills"] == "0 bytes"
    assert said["Instructions"] == "1 HGMMA"
    assert said["Against the pin"] == "bit-identical build"
    assert "as recorded" in said["nvcc's time"]
    assert "-Xptxas -v" in table.caption
    for spoil, column, text in (
        (spilled, "Spills", "4 bytes"),
        (without_bit, "Against the pin", "none is pinned"),
        (lambda r: change(r, front_end="13.2.51"), "nvcc", "13.0.88, front end 13.2.51"),
    ):
        other = builds(spoil(results))
        assert other is not None
        assert (
            dict(zip(other.headers, (c.text for c in other.rows[0]), strict=True))[column] == text
        )
    unlocked = builds(change(results, differences=("nvcc is 1, the manifest pins 2",)))
    assert unlocked is not None and "Other than pinned: nvcc is 1" in unlocked.caption
    assert builds(results.model_copy(update={"build": None})) is None
