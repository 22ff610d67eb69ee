"""The manifest: strict, and every error at its dotted place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artifact.errors import UsageError, VerificationError
from artifact.model.load import check_schema, parse_model, parse_toml
from artifact.model.manifest import Manifest

ROOT = Path(__file__).resolve().parents[2]
PLAIN = parse_toml((ROOT / "manifests/artifact.toml").read_bytes(), "artifact.toml")


def load(value: Any) -> Manifest:
    """As commands read it: the schema first, then the model."""
    check_schema("manifest", value, "artifact.toml")
    return parse_model(Manifest, value, "artifact.toml")


def refused(change: Callable[[Any], Any]) -> str:
    value = copy.deepcopy(PLAIN)
    change(value)
    with pytest.raises(VerificationError) as caught:
        load(value)
    return caught.value.render()


def dims(manifest: Any, shape: int) -> Any:
    return manifest["workloads"][0]["shapes"][shape]["dims"]


def orders(manifest: Any) -> Any:
    return manifest["workloads"][0]["protocols"]


def control(manifest: Any) -> Any:
    return manifest["gates"]["controls"][1]


def witness(manifest: Any, **expected: object) -> None:
    manifest["backends"][2]["witness"] = expected


def test_it_reads_back_what_it_says() -> None:
    manifest = load(PLAIN)
    again = parse_model(Manifest, manifest.model_dump(mode="json"), "x")
    assert again == manifest
    with pytest.raises(Exception, match="frozen"):
        manifest.default_workload = "other"  # type: ignore[misc]


def test_a_workload_by_its_name() -> None:
    manifest = load(PLAIN)
    assert manifest.chosen_workload(None).name == manifest.default_workload
    assert manifest.chosen_workload("cpu-demo").name == "cpu-demo"
    with pytest.raises(UsageError) as caught:
        manifest.chosen_workload("none")
    assert (caught.value.where, caught.value.found) == ("--workload none", "none")
    assert caught.value.expected == "one of: prefill-d128, cpu-demo"


def test_caveats_of_a_run() -> None:
    value = copy.deepcopy(PLAIN)
    value["caveats"] = [
        {"workloads": ["cpu-demo"], "text": "a"},
        {"workloads": ["prefill-d128", "cpu-demo"], "backends": ["fa3", "cpu-direct"], "text": "b"},
        {"workloads": ["prefill-d128"], "text": "c"},
    ]
    manifest = load(value)
    assert manifest.caveats_of("cpu-demo", ["cpu-direct", "cpu-forward"]) == ("a", "b")
    assert manifest.caveats_of("cpu-demo", ["cpu-forward"]) == ("a",)
    assert manifest.caveats_of("prefill-d128", iter(["fa3"])) == ("b", "c")

    def unknown(manifest: Any) -> None:
        manifest["caveats"] = [{"workloads": ["nothing"], "backends": ["nobody"], "text": "x"}]

    message = refused(unknown)
    assert "caveats[0].workloads[0]" in message and "found 'nothing'" in message
    assert "caveats[0].backends[0]: found 'nobody'" in message


@pytest.mark.parametrize(
    ("grid", "problem"),
    [
        (["T/128"], "unknown dimension 'T'"),
        (["S/100"], "at S=4096, h800-pcie: 'S/100' is 1024/25, not a whole number"),
        (["persistent_ctas - 114"], "is 0, not a whole number"),
        (["persistent_ctas - 132"], "is -18, not a whole number"),
        (["others"], "unknown dimension 'others'"),
    ],
)
def test_a_grid_is_a_number_at_each_shape_and_target(grid: list[str], problem: str) -> None:
    place = next(i for i, b in enumerate(PLAIN["backends"]) if "grid" in b.get("witness", {}))

    def change(manifest: Any) -> None:
        manifest["backends"][place]["witness"]["grid"] = grid

    message = refused(change)
    assert f"backends[{place}].witness.grid\n" in message and problem in message


@pytest.mark.parametrize("grid", [[], ["1", "1", "1", "1"], ["S **"], "S"])
def test_a_grid_of_another_form(grid: object) -> None:
    assert "witness" in refused(lambda manifest: witness(manifest, grid=grid))


def test_every_native_backend_states_its_grid() -> None:
    manifest = load(PLAIN)
    assert all(b.witness.grid for b in manifest.backends if b.kind == "native")


def test_the_published_shapes_and_targets() -> None:
    manifest = load(PLAIN)
    published = manifest.workload("prefill-d128")
    assert published is not None and published.comparable
    assert [shape.dims for shape in published.shapes] == [
        {"B": 4, "H": 32, "S": s, "D": 128} for s in (4096, 8192, 16384)
    ]
    demo = manifest.workload("cpu-demo")
    assert demo is not None and not demo.comparable and demo.note
    paper = manifest.protocol("paper")
    assert paper is not None and (paper.warmup, paper.repeat, paper.rounds) == (50, 200, 3)
    assert {t.name: t.sms for t in manifest.targets} == {
        "h800-pcie": 114,
        "h100-sxm": 132,
        "h200": 132,
    }


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda m: witness(m, threads="384"), "backends[2].witness.threads"),
        (lambda m: witness(m, threads=0), "backends[2].witness.threads"),
        (lambda m: witness(m, threads=1.5), "backends[2].witness.threads"),
        (lambda m: witness(m, thread=384), "backends[2].witness"),
        (lambda m: m["backends"][0].update(kind="perl"), "backends[0].kind"),
        (lambda m: m["backends"][0].update(worker="/bin/sh"), "backends[0].worker"),
        (lambda m: m["backends"][0].update(worker="../x.py"), "backends[0].worker"),
        (lambda m: m["backends"][0].update(args="--fast"), "backends[0].args"),
        (lambda m: m["backends"][0].update(anchor="yes"), "backends[0].anchor"),
        (lambda m: m["backends"][0].update(env={"1X": "a"}), "backends[0].env"),
        (lambda m: m["backends"][0].update(name="Has Space"), "backends[0].name"),
        (lambda m: m["backends"][1].pop("worker"), "backends[1]"),
        (lambda m: m.update(backends=[]), "backends"),
        (lambda m: m.update(manifest_version=2), "manifest_version"),
        (lambda m: m.update(manifest_version="1"), "manifest_version"),
        (lambda m: m.update(surprise=1), "surprise"),
        (lambda m: m["artifact"].update(name="a/b"), "artifact.name"),
        (lambda m: m["artifact"].pop("licence"), "artifact"),
        (lambda m: m["archive"].update(mtime="yesterday"), "archive.mtime"),
        (lambda m: m["archive"].update(mtime=0), "archive.mtime"),
        (lambda m: m["archive"]["deflate"].update(level=10), "archive.deflate.level"),
        (lambda m: m["metric"].update(work="2*B**2"), "metric.work"),
        (lambda m: m["metric"].update(work="os.system('x')"), "metric.work"),
        (lambda m: m["metric"].update(per_second=0), "metric.per_second"),
        (lambda m: m["gates"].update(controls=[]), "gates.controls"),
        (lambda m: control(m).update(positions=["end"]), "gates.controls[1].positions"),
        (lambda m: m["gates"]["published"].update(atol=-1.0), "gates.published.atol"),
        (lambda m: m["statistics"].update(confidence=1.0), "statistics.confidence"),
        (lambda m: m["workloads"][0].update(seed=-1), "workloads[0].seed"),
        (lambda m: m["workloads"][0].update(seed=2**64), "workloads[0].seed"),
        (lambda m: dims(m, 1).update(S=0), "workloads[0].shapes[1].dims.S"),
        (lambda m: dims(m, 1).update(S="8192"), "workloads[0].shapes[1].dims.S"),
        (lambda m: m["protocols"][0].update(order="random"), "protocols[0].order"),
        (lambda m: m["protocols"][0].update(rounds=0), "protocols[0].rounds"),
        (lambda m: m["targets"][0].update(sms=114.5), "targets[0].sms"),
        (lambda m: m["targets"][0].update(device_names=[]), "targets[0].device_names"),
        (lambda m: m["downloads"].update({"x": "a\\b"}), "downloads.x"),
        (lambda m: m["inventory"].update(published="all"), "inventory.published"),
    ],
)  # fmt: skip
def test_the_exact_place_is_named(change: Callable[[Any], Any], place: str) -> None:
    text = refused(change)
    assert place in text, text
    assert "expected:" in text or "found:" in text


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (lambda m: m.update(default_workload="none"), "default_workload", "prefill-d128, cpu-demo"),
        (lambda m: m["backends"].append(m["backends"][0]), "backends", "stands 2 times"),
        (lambda m: m["targets"].append(m["targets"][0]), "targets", "stands 2 times"),
        (lambda m: m["backends"][0].update(workloads=["x"]), "backends[0].workloads[0]", "'x'"),
        (lambda m: m["backends"][0].update(environment="x"), "backends[0].environment", "main"),
        (lambda m: m["backends"][0].update(kernel="x"), "backends[0].kernel", "allowed"),
        (lambda m: m["backends"][0].update(device="gpu"), "backends[0].device", "runs on 'cpu'"),
        (lambda m: m["backends"][1].update(anchor=True), "workloads[1]", "more than one anchor"),
        (lambda m: orders(m).update(paper="x"), "workloads[0].protocols.paper", "'x'"),
        (lambda m: orders(m).update(paper="interleaved"), "protocols.paper", "has the order"),
        (lambda m: dims(m, 2).pop("D"), "workloads[0].shapes[2].dims", "lacks 'D'"),
        (lambda m: m["gates"]["output"].update(band_axis="Q"), "shapes[0].dims", "band_axis"),
    ],
)  # fmt: skip
def test_names_that_refer_to_nothing(change: Callable[[Any], Any], place: str, words: str) -> None:
    text = refused(change)
    assert place in text and words in text, text


def test_several_mistakes_are_said_at_once() -> None:
    def change(manifest: Any) -> None:
        manifest["backends"][0]["kind"] = "perl"
        manifest["targets"][1]["sms"] = "many"
        manifest["surprise"] = 1

    text = refused(change)
    assert all(place in text for place in ("backends[0].kind", "targets[1].sms", "surprise"))


def test_a_protocol_digest_depends_on_what_is_measured_alone() -> None:
    protocol = load(PLAIN).protocol("paper")
    assert protocol is not None
    assert protocol.digest() == protocol.model_copy(update={"worker_timeout_s": 1.0}).digest()
    for change in ({"warmup": 51}, {"rounds": 4}, {"clock": "host-monotonic"}, {"seed": 1}):
        assert protocol.digest() != protocol.model_copy(update=change).digest()
