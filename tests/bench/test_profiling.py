"""One launch of a backend under a stand-in for ncu, CUDA and NVML."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from artifact.bench import buildphase
from artifact.bench.buildphase import BuildOptions
from artifact.bench.capturing import stated_shape
from artifact.bench.plan import Options
from artifact.bench.profiling import choose_shape, judge, profile, report_name
from artifact.build.failures import NotBuilt, StaleBuild
from artifact.build.plan import choose, make_units
from artifact.build.profile import Launch
from artifact.build.toolchain import Tool
from artifact.errors import (
    ArtifactError,
    FallbackRefused,
    MeasurementInvalid,
    UsageError,
    VerificationError,
)
from artifact.integrity.documents import load_manifest
from artifact.integrity.lockfile import write_lock
from artifact.model.backend import Witness
from artifact.model.workload import Shape, Workload

STAND_INS = Path(__file__).parents[1] / "assets/profile/stand_ins.py"
spec = importlib.util.spec_from_file_location("profile_assets_bench", STAND_INS)
assert spec is not None and spec.loader is not None
stand_ins = importlib.util.module_from_spec(spec)
spec.loader.exec_module(stand_ins)

HELPER, KERNEL = stand_ins.HELPER, stand_ins.KERNEL


@pytest.fixture
def ncu(tmp_path: Path) -> Tool:
    return Tool("ncu", stand_ins.make_ncu(tmp_path / "ncu"), "PATH")


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file into which the libcuda of the worker writes its calls."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    stand_ins.make_cuda(tmp_path / "cuda", tmp_path / "calls")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "cuda"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path / "calls"


@pytest.fixture
def tree(fake_artifact: Path) -> Path:
    stand_ins.with_backend(fake_artifact, "delta.*")
    return fake_artifact


def look(root: Path, ncu: Tool, *worker_env: str, **more: Any) -> Any:
    options = Options(workload="big", backends=("delta",), worker_env=worker_env)
    return profile(options, root, load_manifest(root), ncu, nvml=stand_ins.module("pynvml"), **more)


def test_the_timed_launch_is_captured_and_checked(tree: Path, ncu: Tool, calls: Path) -> None:
    done = look(tree, ncu)
    assert done.report == tree / "build/delta-n8.ncu-rep"
    assert json.loads(done.report.read_text()) == [HELPER, KERNEL]
    assert done.launch.names == ("_Z5deltav", "delta()")
    assert done.checked == ("symbol: delta.*", "threads: 384")
    assert done.others == ("fill",)
    # The switch is thrown around the timed launch, and not before.
    assert calls.read_text().split()[-3:] == [
        "cuProfilerStart",
        "cuCtxSynchronize",
        "cuProfilerStop",
    ]
    assert calls.read_text().count("cuProfilerStart") == 1
    options, _, program = json.loads((ncu.path.parent / "CALLS").read_text().splitlines()[0])
    assert options["--profile-from-start"] == "off" and options["--set"] == "full"
    assert program[-2:] == ["--backend", "delta"]
    requests = json.loads(program[3])
    assert [request["op"] for request in requests] == ["hello", "prepare", "time"]
    assert requests[1]["parameters"] == {"ctas": 8}
    assert (requests[2]["warmup"], requests[2]["repeat"]) == (0, 1)


def test_a_report_is_replaced_only_when_asked(tree: Path, ncu: Tool, calls: Path) -> None:
    look(tree, ncu)
    with pytest.raises(UsageError, match="report of this name"):
        look(tree, ncu)
    look(tree, ncu, force=True)


def test_another_kernel_is_refused_and_leaves_no_report(
    fake_artifact: Path, ncu: Tool, calls: Path
) -> None:
    stand_ins.with_backend(fake_artifact, "epsilon")
    with pytest.raises(FallbackRefused) as caught:
        look(fake_artifact, ncu)
    assert caught.value.details == ("fill", "delta()")
    assert not (fake_artifact / "build").exists()


def test_a_changed_tree_is_not_executed(tree: Path, ncu: Tool, calls: Path) -> None:
    (tree / "workers/fake.py").write_text("raise SystemExit(1)")
    with pytest.raises(VerificationError):
        look(tree, ncu)
    assert not (ncu.path.parent / "CALLS").exists()


@pytest.mark.parametrize(
    "fault", ["out_of_memory@prepare", "missing_module@hello", "fallback@time"]
)
def test_what_the_worker_reports_comes_first(
    tree: Path, ncu: Tool, calls: Path, fault: str
) -> None:
    (ncu.path.parent / "LAUNCHES").write_text("none")
    with pytest.raises(ArtifactError) as caught:
        look(tree, ncu, f"delta:FAULT={fault}")
    assert type(caught.value).__module__ == "artifact.bench.failures"


def test_a_worker_that_dies(tree: Path, ncu: Tool, calls: Path) -> None:
    with pytest.raises(MeasurementInvalid, match="did not capture"):
        look(tree, ncu, "delta:FAULT=crash@prepare")


def test_a_worker_that_prints_garbage(tree: Path, ncu: Tool, calls: Path) -> None:
    with pytest.raises(MeasurementInvalid, match="does not speak the worker protocol"):
        look(tree, ncu, "delta:FAULT=garbage@prepare")


def test_without_the_drivers_library(
    tree: Path, ncu: Tool, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (calls.parent / "cuda/libcuda.so.1").unlink()
    with pytest.raises(MeasurementInvalid) as caught:
        look(tree, ncu)
    assert "libcuda.so.1" in caught.value.details[-1] or caught.value.found == "status 70"


def test_the_processor_has_no_kernels(fake_artifact: Path, ncu: Tool) -> None:
    options = Options(workload="tiny", backends=("alpha",))
    with pytest.raises(UsageError, match="kernels of a GPU"):
        profile(options, fake_artifact, load_manifest(fake_artifact), ncu)


def workload(*dims: dict[str, int]) -> Workload:
    shapes = tuple(Shape(name=f"shape {n}", dims=d) for n, d in enumerate(dims))
    return Workload(
        name="w", title="W", device="gpu", comparable=True, seed=1, shapes=shapes,
        protocols={"paper": "p"},
    )  # fmt: skip


def test_a_shape_by_name_or_by_the_dimension_that_varies() -> None:
    several = workload({"B": 4, "S": 128}, {"B": 4, "S": 256})
    assert choose_shape(several, "shape 1", None).dims["S"] == 256
    assert choose_shape(several, None, 128).name == "shape 0"
    assert choose_shape(workload({"S": 5}), None, None).name == "shape 0"


@pytest.mark.parametrize(
    ("dims", "name", "value", "what"),
    [
        (({"S": 1}, {"S": 2}), None, None, "no shape was named"),
        (({"S": 1}, {"S": 2}), "shape 0", 1, "named once"),
        (({"S": 1}, {"S": 2}), "shape 9", None, "no such shape"),
        (({"S": 1}, {"S": 2}), None, 3, "no such shape"),
        (({"B": 1, "S": 1}, {"B": 2, "S": 2}), None, 1, "alone does not name"),
        (({"S": 1},), None, 1, "alone does not name"),
        (({"S": 1}, {"T": 2}), None, 1, "alone does not name"),
    ],
)
def test_no_shape_is_guessed(dims: Any, name: Any, value: Any, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        choose_shape(workload(*dims), name, value)


def test_names_of_reports() -> None:
    assert report_name("v4", "S=8192") == "v4-s8192.ncu-rep"
    assert report_name("v4", "B=4, S=8/3") == "v4-b4-s8-3.ncu-rep"
    assert report_name("v4", "../..") == "v4-shape.ncu-rep"


def judged(launches: tuple[Launch, ...], **expected: Any) -> tuple[Launch, tuple[str, ...]]:
    return judge("b", "s", Witness(**expected), launches)


def launch(name: str, duration: float = 1.0, **metrics: float) -> Launch:
    return Launch((name,), (8, 1, 1), (128, 3, 1), {"gpu__time_duration.sum": duration, **metrics})


def test_the_longest_launch_stands_where_no_symbol_is_named() -> None:
    found, checked = judged((launch("a"), launch("b", 3.0), launch("c", 2.0)))
    assert (found.names, checked) == (("b",), ())


def test_a_launch_of_another_shape_is_refused() -> None:
    with pytest.raises(FallbackRefused) as caught:
        judged((launch("a"),), symbol="a", threads=256)
    assert caught.value.found == "threads: expected 256, found 384"
    used = launch("a", launch__registers_per_thread=168.0)
    assert judged((used,), registers_max=168)[1] == ("registers_max: 168",)
    with pytest.raises(FallbackRefused):
        judged((used,), registers_max=167)
    # What ncu did not see is not said to be checked.
    assert judged((launch("a"),), registers_max=167, spills=0)[1] == ()


def test_a_launch_of_another_grid_is_refused() -> None:
    """A shape that was not taken shows in the grid alone."""
    seen = (launch("a"),)
    assert judged(seen, grid=("8", "1", "1"))[1] == ("grid: 8x1x1",)
    with pytest.raises(FallbackRefused) as caught:
        judged(seen, symbol="a", threads=384, grid=("16", "1", "1"))
    assert caught.value.found == "grid: expected '16x1x1', found '8x1x1'"


def test_an_empty_window() -> None:
    with pytest.raises(MeasurementInvalid, match="saw no launch"):
        judged(())


TARGET = """
[[targets]]
name = "fake-gpu"
title = "A fake GPU"
device_names = ["Fake GPU"]
sms = 8
parameters = { ctas = 8 }

[[dependencies]]"""


@pytest.fixture
def native(native_artifact: Path, ncu: Tool) -> Path:
    """The native stand-ins as backends of a GPU, built; ncu tells of the kernel of one."""
    path = native_artifact / "manifests/artifact.toml"
    text = path.read_text().replace('device = "cpu"', 'device = "gpu"')
    text = text.replace('clock = "host-monotonic"', 'clock = "cuda-events"')
    path.write_text(text.replace("\n[[dependencies]]", TARGET, 1))
    write_lock(native_artifact)
    launch = ["kernel_of_one", "kernel_of_one()", [4, 1, 1], [384, 1, 1], {}]
    (ncu.path.parent / "LAUNCHES").write_text(json.dumps([launch]))
    manifest = load_manifest(native_artifact)
    units = make_units(manifest, choose(manifest, ("one",)))
    options = BuildOptions()
    buildphase.make(
        native_artifact, manifest, units, options,
        buildphase.verify_tree(native_artifact, manifest, units, options, False),
        unlocked=False, done=lambda *a: None, failed=lambda *a: None, say=lambda text: None,
    )  # fmt: skip
    return native_artifact


def look_at(root: Path, ncu: Tool, backend: str = "one", **more: Any) -> Any:
    options = Options(backends=(backend,))
    return profile(options, root, load_manifest(root), ncu, nvml=stand_ins.module("pynvml"), **more)


def test_an_executable_is_profiled_as_typed_by_hand(native: Path, ncu: Tool) -> None:
    # The stand-in prints the rows that its environment asks for.
    script = ncu.path
    script.write_text(
        script.read_text().replace(
            "status = subprocess.run(given, check=False).returncode",
            "done = subprocess.run(given, capture_output=True, check=False)\n"
            '    (HERE / "PRINTED").write_bytes(done.stdout)\n'
            "    print(done.stdout.decode(), end='', flush=True)\n    status = done.returncode",
        )
    )
    done = look_at(native, ncu, value=10)
    assert done.report == native / "build/one-n10.ncu-rep"
    assert done.launch.names == ("kernel_of_one", "kernel_of_one()")
    assert "symbol: kernel_of_one" in done.checked
    assert done.checked[0] == "shape: N=10 M=2, as it says"
    options, _, program = json.loads((ncu.path.parent / "CALLS").read_text().splitlines()[0])
    # The target's launch arguments: with its defaults the launch would be another than a run's.
    assert program == ["build/one", "--parameter", "ctas=8"]
    assert options["--launch-count"] == "1" and "--profile-from-start" not in options
    assert (ncu.path.parent / "PRINTED").read_text() == "one: N=10 M=2, factor 2\n"


def state_grid(root: Path, grid: str) -> None:
    path = root / "manifests/artifact.toml"
    text = path.read_text()
    symbol = 'symbol = "kernel_of_one"\n'
    assert text.count(symbol) == 1
    path.write_text(text.replace(symbol, f"{symbol}{grid}\n"))
    write_lock(root)


def test_an_executable_that_ignores_the_shape_is_refused(native: Path, ncu: Tool) -> None:
    state_grid(native, 'grid = ["N/2", "ctas/8"]')
    assert "grid: 4x1x1" in look_at(native, ncu, value=8).checked
    with pytest.raises(FallbackRefused) as caught:
        look_at(native, ncu, value=10)
    assert caught.value.found == "grid: expected '5x1x1', found '4x1x1'"
    assert not (native / "build/one-n10.ncu-rep").exists()


def test_an_executable_whose_grid_shows_no_shape_says_it_itself(native: Path, ncu: Tool) -> None:
    """As a persistent kernel: its grid is that of the card at every shape."""
    state_grid(native, 'grid = ["ctas/2"]')
    path = native / "manifests/artifact.toml"
    # The executable does not heed this variable, and launches what it launches by itself.
    path.write_text(path.read_text().replace("STAND_IN_N =", "STAND_IN_ROWS ="))
    write_lock(native)
    assert "grid: 4x1x1" in look_at(native, ncu, value=8).checked
    with pytest.raises(FallbackRefused) as caught:
        look_at(native, ncu, value=10)
    error = caught.value
    assert (error.expected, error.found) == ("N=10 M=2", "N=8 M=2")
    assert error.next == "STAND_IN_ROWS=10 STAND_IN_QUIET=1 build/one --parameter ctas=8"
    assert not (native / "build/one-n10.ncu-rep").exists()


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("", "N=? M=? (? is not stated)"),
        ("one: N=10\n", "N=10 M=? (? is not stated)"),
        ("one: N=8 M=2\none: N=10 M=2\n", "N=8 M=2"),
        ("one: XN=10 N=100 M=2.5\n", "N=100 M=? (? is not stated)"),
        ("one: N=10, M=2\none: N=8 M=2\n", None),
        ("one (N=10,M=2): 3 ms", None),
    ],
)
def test_the_shape_that_an_executable_states(native: Path, said: str, found: str | None) -> None:
    manifest = load_manifest(native)
    backend = next(b for b in manifest.backends if b.name == "one")
    shape = manifest.workloads[0].shapes[1]
    if found is None:
        assert stated_shape(backend, shape, said, "x") == "shape: N=10 M=2, as it says"
        return
    with pytest.raises(FallbackRefused) as caught:
        stated_shape(backend, shape, said, "x")
    assert caught.value.found == found


def test_an_edited_kernel_and_other_tools_are_marked(native: Path, ncu: Tool) -> None:
    program = look_at(native, ncu, value=8).program
    assert (program.marks, program.modified) == ((), ())
    # As if the edited kernel had been built, with another nvcc.
    kernel, path = native / "kernels/one.co", native / "build/one.json"
    kernel.write_bytes(kernel.read_bytes() + b"\n")
    record = json.loads(path.read_text())
    record["build"]["source_blake3"] = blake3(kernel.read_bytes()).hexdigest()
    record["build"]["differences"] = ["nvcc 12.0 in place of 13.0.88"]
    path.write_text(json.dumps(record))
    options = Options(backends=("one",), unlocked_env=True)
    done = profile(
        options, native, load_manifest(native), ncu, value=8, force=True,
        nvml=stand_ins.module("pynvml"),
    )  # fmt: skip
    assert done.program.marks == ("UNLOCKED", "MODIFIED")
    assert done.program.modified == ("kernels/one.co",)


def test_another_executable_is_not_profiled(native: Path, ncu: Tool) -> None:
    (native / "build/one").write_bytes(b"another")
    with pytest.raises(StaleBuild):
        look_at(native, ncu, value=8)
    (native / "build/one").unlink()
    with pytest.raises(NotBuilt):
        look_at(native, ncu, value=8)
    assert not (ncu.path.parent / "CALLS").exists()


def test_an_executable_that_takes_no_shape_by_hand(native: Path, ncu: Tool) -> None:
    path = native / "manifests/artifact.toml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("direct")]
    path.write_text("\n".join([*lines, ""]))
    write_lock(native)
    with pytest.raises(UsageError, match="how a shape is chosen by hand"):
        look_at(native, ncu, value=8)
