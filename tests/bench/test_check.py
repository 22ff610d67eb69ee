from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from artifact import __version__
from artifact.bench import gates, witness
from artifact.bench.check import RunReport, verify_run
from artifact.bench.messages import Checked
from artifact.bench.rundir import pins
from artifact.bench.schedule import schedule, suite_order
from artifact.bench.summary import summarise
from artifact.errors import ExitCode, VerificationError
from artifact.integrity.contentid import content_id
from artifact.model import results as model
from artifact.model.backend import Witness
from artifact.model.canonical import pretty_json
from artifact.model.load import dump_json
from artifact.model.lock import DeflatePin, FilePin, Lock
from artifact.model.manifest import (
    Control,
    GateRules,
    OutputRules,
    PublishedGate,
    StatisticsRules,
    StrictGate,
)
from artifact.model.protocol import Protocol
from artifact.model.results import RunResults, Sample
from artifact.model.workload import Shape, Workload
from artifact.report.base import render
from tests.report.conftest import without_column

RUN_ID = "20260921T100514Z-toy-cpu"
NAMES = ("a", "b", "c")
SHAPES = {"N=4": {"N": 4, "D": 2}, "N=6": {"N": 6, "D": 2}}
RULES = GateRules(
    output=OutputRules(elements="N*D", rows="N", band_axis="N", band_rows=4),
    published=PublishedGate(atol=0.05, rtol=0.1),
    strict=StrictGate(factor=2.0),
    controls=(
        Control(name="zeros", description="zeros"),
        Control(name="dropped", positions=("first", "last"), description="dropped"),
    ),
)

EXPECTED = Witness(implementation="numpy", threads=4, grid=("2", "1", "1"))
LOCK = Lock(
    lock_version=1,
    artifact="toy",
    version="1.0",
    deflate=DeflatePin(
        implementation="zlib",
        package_version=None,
        runtime_version="1.3",
        level=6,
        block_bytes=65536,
    ),
    chain=(),
    files=(FilePin(path="a.py", size=1, executable=True, blake3="1" * 64, sha256="2" * 64),),
)
LOCK_BYTES = pretty_json(LOCK.model_dump(mode="json"))
LOCK_ROW = ("manifests/lock.json", False, len(LOCK_BYTES), blake3(LOCK_BYTES).hexdigest())
LOG = b"one\ntwo\nthree\n"


def figures(shape: str, e_max: float) -> dict[str, Any]:
    n = SHAPES[shape]["N"]
    spans = [(0, 3)] if n == 4 else [(0, 3), (4, 5)]
    return {
        "elements": n * 2,
        "rows": n,
        "nonfinite": 0,
        "outside_tolerance": 0,
        "max_abs": 2 * e_max,
        "max_abs0": 0.02,
        "bands": [
            {
                "first": first, "last": last, "rows": last - first + 1,
                "e_max": e_max, "e_rms": e_max / 2, "e0_max": 0.01, "e0_rms": 0.005,
            }
            for first, last in spans
        ],
    }  # fmt: skip


def check_record(backend: str, shape: str) -> model.CheckRecord:
    answer = {
        "op": "check", "id": 1, "backend": backend, "figures": figures(shape, 0.011),
        "controls": [
            {"name": name, "position": position, "figures": figures(shape, 0.5)}
            for name, position in gates.expected_controls(RULES)
        ],
    }  # fmt: skip
    checked = Checked.model_validate_json(json.dumps(answer))
    return gates.judge(backend, shape, {"x": "e" * 64}, checked, RULES, SHAPES[shape])


def run(order: str = "paper", **changes: Any) -> RunResults:
    protocol = Protocol(
        name=f"toy-{order}", clock="host-monotonic", order=order, warmup=1, repeat=3,
        rounds=3 if order == "paper" else 9, seed=42,
    )  # fmt: skip
    workload = Workload(
        name="toy", title="Toy", device="cpu", comparable=False, seed=1,
        shapes=tuple(Shape(name=name, dims=dims) for name, dims in SHAPES.items()),
        protocols={order: protocol.name}, default_order=order,
    )  # fmt: skip
    windows = schedule(protocol, NAMES, tuple(SHAPES), "a")
    speed = {"a": 1.0, "b": 1.5, "c": 0.5}
    samples = tuple(
        Sample(
            backend=w.backend, shape=w.shape, position=w.position, round=w.round,
            ms=speed[w.backend] * (1 + i % 7 / 1000),
        )
        for i, w in enumerate(windows)
    )  # fmt: skip
    metric = model.Metric(name="GOPS", work="2*N*D", per_second=1e9)
    rules = StatisticsRules(confidence=0.95, tie=0.01, max_drift=0.05)
    rows, comparisons = summarise(samples, workload, NAMES, "a", metric, rules, protocol)
    values: dict[str, Any] = {
        "results_version": 1,
        "run_id": RUN_ID,
        "origin": "measured",
        "complete": True,
        "state": model.State(phase="done"),
        "marks": ("NOT COMPARABLE",),
        "started": "2026-09-21T10:05:14Z",
        "finished": "2026-09-21T10:06:14Z",
        "artifact": model.ArtifactRef(
            name="toy", version="1.0", lock_blake3=LOCK_ROW[3],
            content_id=content_id([("a.py", True, 1, "1" * 64), LOCK_ROW]),
        ),
        "tool": model.ToolRef(
            name="artifact", version=__version__, python="3.12", command=("run",)
        ),
        "machine": None,
        "device": model.Device(kind="cpu", name="toy"),
        "workload": workload,
        "protocol": protocol,
        "protocol_digest": protocol.digest(),
        "metric": metric,
        "gates": RULES,
        "statistics": rules,
        "headings": model.Headings(title="Toy", axis="N"),
        "order": suite_order(windows),
        "interpreters": (
            model.Interpreter(
                environment="runner", python="3.12", implementation="CPython", locked=None
            ),
        ),
        "backends": tuple(
            model.BackendRun(
                name=name, title=name.upper(), anchor=name == "a", environment="runner",
                worker="w.py", worker_blake3="3" * 64, log=f"logs/{name}.log",
            )
            for name in NAMES
        ),
        "checks": tuple(check_record(b, s) for b in NAMES for s in SHAPES),
        "witnesses": tuple(
            witness.require(
                b, s, EXPECTED, {"implementation": "numpy", "threads": 4, "grid": "2x1x1"}
            )
            for b in NAMES
            for s in SHAPES
        ),
        "samples": samples,
        "summary": rows,
        "comparisons": comparisons,
        **changes,
    }  # fmt: skip
    return RunResults(**values)


def write(folder: Path, results: RunResults) -> Path:
    """The folder that a run with these results leaves behind."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    (folder / "lock.json").write_bytes(LOCK_BYTES)
    for name in NAMES:
        (folder / "logs" / f"{name}.log").write_bytes(LOG)
    (folder / "tflops.png").write_bytes(b"not drawn again")
    for name, data in render(results).items():
        (folder / name).write_bytes(data)
    pinned = results.model_copy(update={"files": pins(folder)})
    (folder / "results.json").write_bytes(dump_json("results", pinned, "results.json"))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / RUN_ID, run())


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Edit results.json and nothing else."""
    path = folder / "results.json"
    value = json.loads(path.read_bytes())
    change(value)
    path.write_bytes(pretty_json(value))


def forge(folder: Path, change: Callable[[dict[str, Any]], Any]) -> RunReport:
    """Edit results.json, then make tables and pins anew, as somebody who forges would."""
    path = folder / "results.json"
    value = json.loads(path.read_bytes())
    value["files"] = []
    change(value)
    value["protocol_digest"] = Protocol.model_validate_json(json.dumps(value["protocol"])).digest()
    write(folder, RunResults.model_validate_json(json.dumps(value)))
    return verify_run(folder)


def messages(report: RunReport) -> list[str]:
    return [f"{f.kind}: {f.path}: {f.message}" for f in report.findings]


# What is right


@pytest.mark.parametrize("order", ["paper", "interleaved"])
def test_a_complete_run_agrees_with_itself(tmp_path: Path, order: str) -> None:
    report = verify_run(write(tmp_path / RUN_ID, run(order)))
    assert messages(report) == []
    assert report.ok
    assert report.complete
    assert (report.run_id, report.origin, report.notes) == (RUN_ID, "measured", ())
    report.require()


def test_forging_nothing_changes_nothing(folder: Path) -> None:
    before = (folder / "results.json").read_bytes()
    assert forge(folder, lambda value: None).ok
    assert (folder / "results.json").read_bytes() == before


def test_a_disturbed_window_that_was_repeated_is_kept_and_is_no_finding(tmp_path: Path) -> None:
    good = run()
    disturbed = good.samples[0].model_copy(
        update={"valid": False, "reasons": ("throttled",), "ms": 9.0}
    )
    again = run(samples=(disturbed, *good.samples))
    assert verify_run(write(tmp_path / RUN_ID, again)).ok


def test_a_renamed_folder_is_noted(tmp_path: Path) -> None:
    report = verify_run(write(tmp_path / "copy", run()))
    assert report.ok
    assert report.notes == (f"the folder is called copy, the run {RUN_ID}",)


def test_a_published_run_is_noted_where_it_cannot_be_judged_again(tmp_path: Path) -> None:
    checks = tuple(
        c.model_copy(update={"strict": None, "figures": None, "controls": (), "inputs": {}})
        for c in run().checks
    )
    published = run(
        origin="published",
        checks=checks,
        witnesses=(),
        gates=None,
        artifact=model.ArtifactRef(name="toy", version="1.0", content_id=None, lock_blake3=None),
        absent={"machine": "not described"},
    )
    report = verify_run(write(tmp_path / RUN_ID, published))
    # The folder helper leaves a lock there; it is pinned, so it is no finding either.
    assert messages(report) == []
    assert report.notes == (
        "the run names no lock: which bytes were measured is not shown",
        "no gate rules: verdicts of checks cannot be made again",
        "machine: not described",
    )


def test_float_digits_that_a_c_library_decides_are_not_compared(folder: Path) -> None:
    def change(value: dict[str, Any]) -> None:
        value["comparisons"][2]["detectable"] *= 1 + 1e-13

    assert forge(folder, change).ok


# What was concluded otherwise than measured


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Sets the place ``path[:-1]`` to ``path[-1]``."""

    def change(value: Any) -> None:
        *where, last, new = path
        for key in where:
            value = value[key]
        value[last] = new

    return change


def drop(name: str, index: int = 0) -> Callable[[dict[str, Any]], None]:
    return lambda value: value[name].pop(index)


def double(name: str, index: int = 0) -> Callable[[dict[str, Any]], None]:
    return lambda value: value[name].append(value[name][index])


R = "results: results.json: "


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (put("summary", 1, "median_ms", 0.9), ["summary[1] (a, N=6).median_ms: does not follow"]),
        (put("summary", 1, "rate", 1.0), ["summary[1] (a, N=6).rate: does not follow"]),
        (put("summary", 1, "samples", 9), ["summary[1] (a, N=6).samples: does not follow"]),
        (drop("summary"), ["summary: does not have one entry"]),
        (double("summary"), ["summary: does not have one entry"]),
        (put("comparisons", 2, "verdict", "FASTER"), ["comparisons[2] (b, N=4).verdict:"]),
        (put("comparisons", 2, "ratio", 1.2), ["comparisons[2] (b, N=4).ratio:"]),
        (put("comparisons", 2, "low", 0.2), ["comparisons[2] (b, N=4).low:"]),
        (put("comparisons", 2, "high", None), ["comparisons[2] (b, N=4).high:"]),
        (put("comparisons", 2, "method", "guess"), ["comparisons[2] (b, N=4).method:"]),
        (put("comparisons", 2, "drift", 0.0), ["comparisons[2] (b, N=4).drift:"]),
        (put("comparisons", 2, "detectable", 0.5), ["comparisons[2] (b, N=4).detectable:"]),
        (put("comparisons", 2, "reason", "said so"), ["comparisons[2] (b, N=4).reason:"]),
        (put("comparisons", 2, "anchor", "c"), ["comparisons[2] (b, N=4).anchor:"]),
        (drop("comparisons"), ["comparisons: does not have one entry"]),
        (put("statistics", None), ["statistics: a measured run states the rules"]),
        (put("metric", "work", "2*Q"), ["samples: cannot be put together: unknown dimension 'Q'"]),
        (drop("samples"), ["samples: a, N=4: not one valid sample", "summary[0] ", "..."]),
        (double("samples"), ["samples: a, N=4: not one valid", "samples: cannot be put together"]),
        (put("samples", 0, "position", 3), ["samples: a, N=4: not one valid", "samples: cannot"]),
        (put("samples", 4, "round", 7), ["samples: a, N=6: not one valid sample"]),
        (
            put("samples", 4, "backend", "z"),
            ["samples: a, N=6: not one", "samples: z, N=6: is not of this run", "samples: cannot"],
        ),
        (
            put("samples", 4, "shape", "N=9"),
            ["samples: a, N=6: not one", "samples: a, N=9: is not of this run", "samples: cannot"],
        ),
        (put("samples", 4, "reasons", ["hot"]), ["samples[4]: is called valid, with reasons"]),
        (
            put("order", ["a", "c", "b", "a"]),
            [f"samples: {b}, {n}: not one valid sample" for b in "bc" for n in SHAPES],
        ),
        (put("order", ["a", "b", "c"]), ["order: is not that of the protocol"]),
        (put("order", ["a", "b", "a"]), ["order: does not hold the backends of this run"]),
        (put("order", []), ["order: does not hold the backends of this run"]),
        (put("protocol", "rounds", 10**15), ["samples: there are fewer than rounds"]),
        (put("protocol", "rounds", 4), ["samples: a, N=4: not one valid sample", "..."]),
        (put("marks", []), ["marks: lacks NOT COMPARABLE"]),
        (
            lambda v: v["protocol"].update(custom=True, name="toy+custom"),
            ["marks: lacks CUSTOM PROTOCOL"],
        ),
        (put("interpreters", 0, "locked", False), ["marks: lacks UNLOCKED"]),
        (put("artifact", "modified", ["k.co"]), ["marks: lacks MODIFIED"]),
        (drop("checks", 1), ["checks: a, N=6: is not there"]),
        (double("checks", 1), ["checks: a, N=6: stands 2 times"]),
        (put("checks", 1, "backend", "z"), ["checks: a, N=6: is not there", "checks: z, N=6: is"]),
        (put("checks", 1, "figures", None), ["checks[1] (a, N=6).figures: a measured check has"]),
        (
            put("checks", 1, "figures", "max_abs", 0.5),
            [
                "checks[1] (a, N=6).strict: does not follow from the figures",
                "checks[1] (a, N=6).max_abs_error: does not follow from the figures",
            ],
        ),
        (
            put("checks", 1, "figures", "outside_tolerance", 1),
            ["checks[1] (a, N=6).published: does not follow from the figures"],
        ),
        (
            put("checks", 1, "figures", "bands", 1, "rows", 1),
            ["checks[1] (a, N=6).strict: does not follow from the figures"],
        ),
        (
            put("checks", 1, "strict", {"passed": False, "reasons": ["no"]}),
            [
                "checks[1] (a, N=6).strict: does not follow from the figures",
                "checks[1] (a, N=6).strict: a complete run passed every gate",
            ],
        ),
        (put("checks", 1, "strict", None), ["checks[1] (a, N=6).strict: does not follow"]),
        (put("checks", 1, "checked_elements", 7), ["checks[1] (a, N=6).checked_elements: does"]),
        (
            put("checks", 1, "controls", 0, "rejected", False),
            [
                "checks[1] (a, N=6).controls[0] (zeros): does not follow from the figures",
                "checks[1] (a, N=6).controls: control zeros: is wrong, but passes",
            ],
        ),
        (
            put("checks", 1, "controls", 0, "figures", figures("N=6", 0.011)),
            ["checks[1] (a, N=6).controls[0] (zeros): does not follow from the figures"],
        ),
        (
            lambda value: value["checks"][1]["controls"].pop(),
            ["checks[1] (a, N=6).controls: control dropped (last): was not measured"],
        ),
        (
            put("checks", 5, "inputs", "x", "f" * 64),
            ["checks: shape N=6, input x: c had ffffffffffff, a had eeeeeeeeeeee"],
        ),
        (
            put("checks", 5, "figures", "max_abs0", 7.0),
            ["checks: shape N=6, max_abs0: c states 7.0, a states 0.02"],
        ),
        (put("gates", None), ["gates: a measured run states the rules"]),
        (
            put("gates", "strict", "factor", 1.0),
            [f"checks[{i}] ({b}, {s}).strict" for i, (b, s) in enumerate(
                (b, s) for b in NAMES for s in SHAPES
            )],
        ),
        (put("gates", "output", "band_axis", "Z"), ["gates.output: says nothing about N=4", "..."]),
        (put("gates", "output", "rows", "N*Q"), ["gates.output: says nothing about N=4", "..."]),
        (drop("witnesses"), ["witnesses: a, N=4: is not there"]),
        (double("witnesses"), ["witnesses: a, N=4: stands 2 times"]),
        (put("witnesses", 0, "facts", "threads", 5), ["witnesses[0] (a, N=4): threads: expected"]),
        (put("witnesses", 0, "facts", "grid", "4x1x1"), ["witnesses[0] (a, N=4): grid: expected"]),
        (put("witnesses", 0, "expected", "grid", "x"), ["witnesses[0] (a, N=4).expected: is no"]),
        (put("witnesses", 0, "facts", {}), ["witnesses[0] (a, N=4): implementation", "..."]),
        (put("witnesses", 0, "expected", "speed", 1), ["witnesses[0] (a, N=4).expected: holds"]),
        (put("witnesses", 0, "expected", "threads", -1), ["witnesses[0] (a, N=4).expected: is no"]),
    ],
)  # fmt: skip
def test_what_does_not_follow_is_found_even_if_all_else_was_made_to_fit(
    folder: Path, change: Callable[[dict[str, Any]], Any], expected: list[str]
) -> None:
    found = messages(forge(folder, change))
    assert len(found) == len(expected) or expected[-1] == "...", found
    for message, start in zip(found, expected, strict=False):
        assert start == "..." or message.startswith(R + start), found


def _noted(notes: list[str]) -> Callable[[dict[str, Any]], None]:
    def change(value: dict[str, Any]) -> None:
        backend, interpreter = value["backends"][0], value["interpreters"][0]
        backend.update(environment=interpreter["environment"], versions={"numpy": "2.0"})
        interpreter["differences"] = ["numpy: expected 2.1, found 2.0"]
        value["notes"] = [note.format(*(b["title"] for b in value["backends"])) for note in notes]

    return change


RIGHT = "{0} did not run as locked: numpy: expected 2.1, found 2.0."


@pytest.mark.parametrize(
    ("notes", "found"),
    [
        ([], ["lacks one"]),
        ([RIGHT, "of something else"], []),
        ([RIGHT, "{1} did not run as locked: it is slow."], ["has one"]),
        (["{1} did not run as locked: it is slow."], ["lacks one", "has one"]),
        ([RIGHT.replace("found 2.0", "found 2.1")], ["lacks one", "has one"]),
    ],
)
def test_the_notes_that_mark_rows_follow_from_what_was_installed(
    folder: Path, notes: list[str], found: list[str]
) -> None:
    said = [m for m in messages(forge(folder, _noted(notes))) if "notes" in m]
    assert said == [f"{R}notes: {one} against the run's own facts" for one in found]


def test_the_first_version_began_without_such_notes(folder: Path) -> None:
    def first(value: dict[str, Any]) -> None:
        _noted([])(value)
        value["tool"]["version"] = "0.1.0"

    assert not [m for m in messages(forge(folder, first)) if "notes" in m]


def test_what_differs_from_its_lock_is_not_locked(folder: Path) -> None:
    def both(value: dict[str, Any]) -> None:
        value["interpreters"][0].update(locked=True, differences=["numpy: expected 2, found 3"])

    message = f"{R}interpreters[0] (runner): is called locked, beside differences from its lock"
    assert message in messages(forge(folder, both))


OTHER = {"environment": "other", "python": "3.12", "implementation": "CPython"}


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ([{**OTHER, "locked": True, "digests": True}], []),
        ([{**OTHER, "locked": False}],
         ["marks: lacks UNLOCKED, which the run's own facts call for"]),
        ([{**OTHER, "locked": True}],
         ["interpreters[1] (other): is called locked, and its files were not compared"]),
        ([{**OTHER, "locked": True, "digests": False}],
         ["interpreters[1] (other): is called locked, and its files were not compared"]),
        ([{**OTHER, "locked": None}],
         ["interpreters[1] (other): is neither called locked nor not"]),
        ([{**OTHER, "locked": True, "digests": True}] * 2,
         ["interpreters: 2 of the environment other"]),
        ([], ["interpreters: 0 of the environment other"]),
    ],
)  # fmt: skip
def test_each_interpreter_is_called_locked_or_not(
    folder: Path, more: list[dict[str, Any]], found: list[str]
) -> None:
    def change(value: dict[str, Any]) -> None:
        value["interpreters"] += more
        value["backends"][1]["environment"] = "other"

    assert messages(forge(folder, change)) == [R + message for message in found]


def test_changed_samples_show_in_everything_made_of_them(folder: Path) -> None:
    found = messages(forge(folder, put("samples", 0, "ms", 7.0)))
    assert f"{R}summary[0] (a, N=4).max_ms: does not follow from the samples" in found
    assert f"{R}comparisons[2] (b, N=4).low: does not follow from the samples" in found
    assert f"{R}comparisons[0] (a, N=4).drift: does not follow from the samples" in found


def test_an_invalid_sample_leaves_its_window_empty(folder: Path) -> None:
    report = forge(folder, put("samples", 4, "valid", False))
    found = messages(report)
    assert f"{R}samples[4]: is called invalid without a reason" in found
    assert report.findings[0].reason == "without position 0 round 1"


def test_verdicts_of_a_complete_run_hold(folder: Path) -> None:
    answer = {"op": "check", "id": 1, "backend": "a", "controls": []}
    answer["figures"] = figures("N=6", 0.5)
    checked = Checked.model_validate_json(json.dumps(answer))
    worse = gates.judge("a", "N=6", {"x": "e" * 64}, checked, RULES, SHAPES["N=6"])
    found = messages(forge(folder, put("checks", 1, worse.model_dump(mode="json"))))
    assert f"{R}checks[1] (a, N=6).strict: a complete run passed every gate" in found
    assert len([m for m in found if "was not measured" in m]) == 3


# Files


def kinds(report: RunReport) -> list[tuple[str, str]]:
    return [(f.kind, f.path) for f in report.findings]


def test_every_file_is_checked_both_ways(folder: Path) -> None:
    (folder / "logs/a.log").unlink()
    (folder / "logs/b.log").write_bytes(LOG.replace(b"\n", b"\r\n"))
    (folder / "logs/c.log").chmod(0o755)
    (folder / "tflops.png").write_bytes(b"drawn by hand")
    (folder / "notes.txt").write_text("mine")
    (folder / "logs/deep").mkdir()
    (folder / "logs/deep/link").symlink_to("/etc/passwd")
    report = verify_run(folder)
    assert sorted(kinds(report)) == [
        ("changed", "logs/b.log"),
        ("changed", "tflops.png"),
        ("extra", "logs/deep/link"),
        ("extra", "notes.txt"),
        ("missing", "logs/a.log"),
        ("mode", "logs/c.log"),
    ]
    by_path = {f.path: f for f in report.findings}
    assert "CRLF" in (by_path["logs/b.log"].reason or "")
    assert by_path["logs/deep/link"].reason == "it points to /etc/passwd"
    with pytest.raises(VerificationError) as caught:
        report.require()
    assert len(caught.value.details) == 6
    assert caught.value.exit_code == ExitCode.VERIFICATION


@pytest.mark.parametrize(
    ("what", "kind"), [("symlink", "symlink"), ("fifo", "special"), ("directory", "missing")]
)
def test_a_file_that_is_something_else(folder: Path, what: str, kind: str) -> None:
    import os

    path = folder / "logs/a.log"
    path.unlink()
    if what == "symlink":
        path.symlink_to("b.log")
    elif what == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert kinds(verify_run(folder)) == [(kind, "logs/a.log")]


@pytest.mark.parametrize("name", ["summary.csv", "summary.md", "provenance.json"])
def test_a_table_that_was_edited_and_pinned_anew_is_found(folder: Path, name: str) -> None:
    path = folder / name
    path.write_bytes(path.read_bytes().replace(b"1.5", b"0.5") + b" ")
    edit(folder, lambda v: v.update(files=[p.model_dump() for p in pins(folder)]))
    report = verify_run(folder)
    assert messages(report) == [f"results: {name}: is not what the report makes of results.json"]


@pytest.mark.parametrize("name", ["summary.csv", "summary.md", "provenance.json"])
def test_a_table_that_is_neither_there_nor_pinned_is_found(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert kinds(verify_run(folder)) == [("missing", name)]
    edit(folder, lambda v: v.update(files=[p.model_dump() for p in pins(folder)]))
    assert messages(verify_run(folder)) == [f"missing: {name}: a table of this run is not there"]


def test_pins_are_named_once_and_never_pin_themselves(folder: Path) -> None:
    def change(value: dict[str, Any]) -> None:
        value["files"].append(value["files"][0])
        value["files"].append({**value["files"][0], "path": "results.json"})

    edit(folder, change)
    assert sorted(kinds(verify_run(folder))) == [
        ("duplicate", "lock.json"), ("results", "results.json"),
    ]  # fmt: skip


# The lock


def test_another_lock_is_found_by_its_digest(folder: Path) -> None:
    other = LOCK.model_copy(update={"artifact": "other", "version": "2.0"})
    (folder / "lock.json").write_bytes(pretty_json(other.model_dump(mode="json")))
    found = messages(verify_run(folder))
    assert found == [
        "changed: lock.json: is not the lock that results.json names",
        "results: lock.json: locks another artifact than results.json names",
        "results: lock.json: locks another version than results.json names",
        "content-id: results.json: artifact.content_id: is not that of the tree which the lock "
        "pins",
        "changed: lock.json: its contents are not what the run wrote",
    ]


def test_a_lock_that_is_none_is_found(folder: Path) -> None:
    (folder / "lock.json").write_bytes(LOCK_BYTES[: len(LOCK_BYTES) // 2])
    report = verify_run(folder)
    assert ("results", "lock.json") in kinds(report)
    assert any(f.message == "a document is not JSON" for f in report.findings)


def test_a_missing_lock_is_found(folder: Path) -> None:
    (folder / "lock.json").unlink()
    assert kinds(verify_run(folder)) == [("missing", "lock.json")] * 2


def test_a_content_id_that_the_lock_does_not_give_is_found(folder: Path) -> None:
    report = forge(folder, put("artifact", "content_id", "0" * 64))
    assert kinds(report) == [("content-id", "results.json")]


def test_a_modified_tree_has_a_content_id_of_its_own(folder: Path) -> None:
    def change(value: dict[str, Any]) -> None:
        value["artifact"].update(content_id="0" * 64, modified=["kernels/k.co"])
        value["marks"].append("MODIFIED")

    assert forge(folder, change).ok


def test_a_measured_run_names_its_lock(folder: Path) -> None:
    report = forge(folder, put("artifact", "lock_blake3", None))
    assert messages(report) == [f"{R}artifact.lock_blake3: names no lock"]


# Incomplete runs


def incomplete(folder: Path, state: dict[str, Any]) -> None:
    def change(value: dict[str, Any]) -> None:
        value.update(
            complete=False, state=state, finished=None, files=[], summary=[], comparisons=[]
        )
        del value["samples"][5:]
        del value["checks"][3:]
        del value["witnesses"][2:]

    edit(folder, change)


def test_an_incomplete_run_is_one_finding_with_phase_and_error(folder: Path) -> None:
    error = model.ErrorRecord(
        error="GateFailed", exit_code=4, what="v1 is wrong", phase="gates", backend="a",
        shape="N=4", found="7 elements",
    )  # fmt: skip
    incomplete(folder, {"phase": "gates", "error": error.model_dump()})
    for name in ("summary.csv", "summary.md", "provenance.json", "lock.json"):
        (folder / name).unlink()
    (folder / "anything").write_text("half")
    report = verify_run(folder)
    (found,) = report.findings
    assert not report.complete
    assert found.message == "the run is not complete: it ended in the phase gates (a, N=4)"
    assert found.found == "GateFailed: v1 is wrong"
    assert found.reason == "7 elements"
    with pytest.raises(VerificationError, match="not complete"):
        report.require()


def test_a_killed_run_says_how_far_it_came(folder: Path) -> None:
    incomplete(folder, {"phase": "timing", "error": None})
    (found,) = verify_run(folder).findings
    assert found.message == "the run is not complete: it stopped in the phase timing"
    assert found.reason == "it is still running, or was killed"


def test_what_an_incomplete_run_concluded_is_still_checked(folder: Path) -> None:
    incomplete(folder, {"phase": "timing", "error": None})
    edit(folder, put("checks", 1, "figures", "nonfinite", 1))
    found = messages(verify_run(folder))
    assert len(found) == 3
    assert found[1].startswith(f"{R}checks[1] (a, N=6).published: does not follow")


# Documents that are none


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda data: b"", "empty"),
        (lambda data: data[:-20], "not JSON"),
        (lambda data: b"\xff" + data, "not UTF-8"),
        (lambda data: data.replace(b'"complete": true', b'"complete": 1'), "schema"),
        (lambda data: data.replace(b'"complete"', b'"completed"'), "schema"),
        (lambda data: data.replace(b'"run_id"', b'"run_id": "x", "run_id"'), "not JSON"),
        (lambda data: data.replace(b'"median_ms": 1.0', b'"median_ms": NaN1.0'), "not JSON"),
        (lambda data: data.replace(b'"warmup": 1', b'"warmup": 2'), "not valid"),
        (lambda data: data.replace(b'"phase": "done"', b'"phase": "gates"'), "not valid"),
        (lambda data: data.replace(b'"finished": "2026', b'"finished": "26'), "schema"),
    ],
)
def test_results_that_are_no_results_are_one_clear_error(
    folder: Path, change: Callable[[bytes], bytes], what: str
) -> None:
    path = folder / "results.json"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(VerificationError, match=what) as caught:
        verify_run(folder)
    assert caught.value.where is not None
    assert "results.json" in caught.value.where


def test_what_cannot_be_read_is_a_finding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_open, real_scandir = os.open, os.scandir

    def refuse(path: Any, *args: Any, **named: Any) -> int:
        if str(path).endswith("summary.csv"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real_open(path, *args, **named)

    def hide(path: Any) -> Any:
        if str(path).rstrip("/").endswith("/logs"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real_scandir(path)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "scandir", hide)
    found = {(f.kind, f.path, f.found) for f in verify_run(folder).findings}
    assert ("unreadable", "summary.csv", "Permission denied") in found
    assert ("unreadable", "logs", "Permission denied") in found
    assert not any(path.startswith("logs/") for _, path, _ in found)


def test_a_folder_without_results_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="missing"):
        verify_run(tmp_path)


def test_a_forged_number_of_rounds_costs_no_time(folder: Path) -> None:
    begin = time.monotonic()
    forge(folder, put("protocol", "rounds", 10**15))
    assert time.monotonic() - begin < 120, "a schedule of so many rounds takes days"


def _older(value: dict[str, Any]) -> None:
    value["tool"]["version"] = "0.1.0"


def _pinned_again(folder: Path, edits: dict[str, Callable[[str], str]]) -> RunReport:
    """Verify a run of an earlier version with tables that were edited and pinned again."""
    forge(folder, _older)
    for name, edit in edits.items():
        path = folder / name
        path.write_text(edit(path.read_text("utf-8")), "utf-8")
    value = json.loads((folder / "results.json").read_bytes())
    value["files"] = [pin.model_dump(mode="json") for pin in pins(folder)]
    (folder / "results.json").write_text(json.dumps(value))
    return verify_run(folder)


def test_an_earlier_version_may_have_other_words(folder: Path) -> None:
    edits = {
        "summary.md": lambda text: text + "more\n", "provenance.json": _subjects_of(folder),
    }  # fmt: skip
    report = _pinned_again(folder, edits)
    assert messages(report) == []
    assert any(note.startswith("version 0.1.0 of the tool") for note in report.notes)
    table = folder / "summary.md"
    table.write_bytes(table.read_bytes() + b"more\n")
    assert "changed: summary.md" in messages(verify_run(folder))[0]


def _subjects_of(folder: Path) -> Callable[[str], str]:
    """Edits a statement so that its subjects are the files that are there."""

    def change(text: str) -> str:
        value = json.loads(text)
        for subject in value["subject"]:
            data = (folder / subject["name"]).read_bytes()
            subject["digest"] = {
                "sha256": hashlib.sha256(data).hexdigest(), "blake3": blake3(data).hexdigest(),
            }  # fmt: skip
        return json.dumps(value)

    return change


@pytest.mark.parametrize(
    ("name", "edit", "found"),
    [
        ("summary.csv", lambda text: without_column(text, "remark"), []),
        ("summary.csv", lambda text: text.replace("SLOWER", "FASTER"), ["summary.csv"]),
        ("summary.csv", lambda text: text.replace("backend,", "other,"), ["summary.csv"]),
        ("summary.csv", lambda text: text[: text.rstrip().rindex("\n")] + "\n", ["summary.csv"]),
        ("summary.csv", lambda text: text + '"', ["summary.csv"]),
        ("summary.csv", lambda text: text.replace("\n", ",1\n"), ["summary.csv"]),
        ("summary.csv", lambda text: re.sub("(?m)^(.*),(.*)$", r"\1,\2,\2", text), ["summary.csv"]),
        ("summary.csv", lambda text: text.replace("caption", "speedup"), ["summary.csv"]),
        (
            "summary.csv",
            lambda text: re.sub("(?m)^([^,]*,[^,]*),.*$", r"\1", text),
            ["summary.csv"],
        ),
    ],
)
def test_the_cells_of_an_earlier_version_follow(
    folder: Path, name: str, edit: Callable[[str], str], found: list[str]
) -> None:
    edits = {name: edit, "provenance.json": _subjects_of(folder)}
    report = _pinned_again(folder, edits)
    assert messages(report) == [
        f"results: {name}: is not what the report makes of results.json" for name in found
    ]


@pytest.mark.parametrize("text", ["x", "[]", "{}", '{"subject": []}', "[" * 200_000])
def test_a_statement_of_an_earlier_version_names_its_files(folder: Path, text: str) -> None:
    report = _pinned_again(folder, {"provenance.json": lambda _: text})
    expected = "results: provenance.json: is not what the report makes of results.json"
    assert messages(report) == [expected]


@pytest.mark.parametrize("version", ["999.0", "9 banana", "9" * 5000, "0.0.9", "0.1.0 "])
def test_a_version_that_never_was_is_found(folder: Path, version: str) -> None:
    (report,) = forge(folder, put("tool", "version", version)).findings
    assert report.message == "tool.version: no version whose tables this one can check"
    assert (report.expected, report.found) == (f"one of: 0.1.0, {__version__}", version)
