"""The pages of a comparison: reasons once, every verdict, and what other people wrote.

It stands here, with the fixtures of every other page, though bench makes these.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from artifact.bench.check import load_results
from artifact.bench.compare import compare
from artifact.bench.comparison_pages import (
    ComparisonReport,
    _letters,
    as_document,
    as_markdown,
    as_text,
)
from artifact.integrity.documents import load_manifest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def manifest():
    return load_manifest(ROOT)


@pytest.fixture(scope="module")
def ours():
    """The published run as if it had been measured, v1 slower by a third."""
    run = load_results(ROOT / "results/20260921-h800-bf16")
    samples = tuple(
        s.model_copy(update={"ms": s.ms * 1.33}) if s.backend == "v1" else s for s in run.samples
    )
    return run.model_copy(update={"run_id": "ours", "origin": "measured", "samples": samples})


@pytest.fixture(scope="module")
def theirs():
    return load_results(ROOT / "results/20260921-h800-bf16")


@pytest.fixture(scope="module")
def decided(ours, theirs, manifest):
    return compare(ours, theirs, manifest)


@pytest.fixture(scope="module")
def elsewhere(ours, theirs, manifest):
    device = ours.device.model_copy(update={"name": "NVIDIA H200", "target": "h200"})
    run = ours.model_copy(update={"device": device, "marks": ("UNLOCKED",)})
    return compare(run, theirs, manifest)


def test_the_terminal_has_figures_verdicts_and_the_answer(decided):
    text = as_text(decided, 160)
    lines = text.splitlines()
    row = next(line for line in lines if "v1: sequential" in line and "S=8192" in line)
    assert "NOT REPRODUCED" in row and "-24.81 %" in row
    assert "0.571 [0.551, 0.595]" in row and "0.429 [0.414, 0.447]" in row
    row = next(line for line in lines if "FlashAttention-3 " in line and "S=4096" in line)
    assert "REPRODUCED" in row and "1.3944 [1.3180, 1.5034]" in row
    assert lines[0].startswith("run:        ours: prefill-d128, protocol paper ")
    assert lines[1].startswith("published:  20260921-h800-bf16: ")
    assert lines[-1] == (
        "verdict:    NOT REPRODUCED; 45 of 45 claims could be decided: 39 REPRODUCED, "
        "6 NOT REPRODUCED"
    )
    assert "\x1b" not in text and "\x1b[" in as_text(decided, 160, color=True)


@pytest.mark.parametrize("width", [40, 80, 100, 110])
def test_a_narrow_terminal_loses_intervals_and_no_verdict(decided, width):
    text = as_text(decided, width)
    assert "[0.551" not in text and "--json also show the intervals" in text
    rows = [line for line in text.splitlines() if "S=8192" in line]
    if width >= 80:
        assert len(rows) == 15 and all(len(row) <= width for row in rows)
        assert all("REPRODUCED" in row and row.count("%") == 1 for row in rows)
    assert text.splitlines()[-1].startswith("verdict:    NOT REPRODUCED")


def test_each_reason_is_said_once_and_numbered(elsewhere):
    report = ComparisonReport(elsewhere)
    assert list(report.reasons.values()) == ["1", "2"]
    codes = {reason.code: number for reason, number in report.reasons.items()}
    assert codes == {"unlocked": "1", "device": "2"}
    for table in report.tables():
        for row in table.rows:
            assert row[2].text == "INCOMPARABLE" and row[6].text.startswith("1 2")
            # Side by side all the same.
            assert row[3].text.endswith("%") and row[4].text != "–" and row[5].text != "–"
    text = as_text(elsewhere, 160)
    assert text.count("the run is UNLOCKED") == 1
    assert "     next: " in text and "run it without --unlocked-env" in text
    assert "verdict:    INCOMPARABLE; 0 of 45 claims could be decided" in text
    assert "NVIDIA H200 (target h200), UNLOCKED" in text.splitlines()[0]


def test_a_verdict_across_devices_says_so_wherever_it_stands(ours, theirs, manifest):
    device = ours.device.model_copy(update={"name": "NVIDIA H200", "target": "h200"})
    run = ours.model_copy(update={"device": device})
    comparison = compare(run, theirs, manifest, cross_device=True)
    for table in ComparisonReport(comparison).tables():
        assert all(row[2].text.endswith("REPRODUCED (CROSS-DEVICE)") for row in table.rows)
    assert "verdict:    NOT REPRODUCED (CROSS-DEVICE);" in as_text(comparison, 160)
    markdown = as_markdown(comparison)
    assert markdown.splitlines()[0].endswith(": NOT REPRODUCED (CROSS-DEVICE)")
    assert "--cross-device" in markdown.splitlines()[-1]
    document = as_document(comparison)
    assert document["cross_device"] and all(c["cross_device"] for c in document["claims"])


def test_markdown_has_everything(decided, elsewhere):
    text = as_markdown(decided)
    lines = text.splitlines()
    assert lines[0] == "# Causal prefill attention, BF16, D=128: NOT REPRODUCED"
    assert (
        "| Croqtile v1: sequential | S=8192 | NOT REPRODUCED | -24.81 % | 0.571 \\[0.551, 0.595] "
        "| 0.429 \\[0.414, 0.447] | 1 |"
    ).replace("\\[", "[") in lines
    assert sum(line.startswith("| ") for line in lines) == 45 + 2 * 2
    assert lines[-1] == "- `artifact compare results/ours results/20260921-h800-bf16`"
    assert "## What to keep in mind" in lines and "## Why" in lines
    assert "1. the run is UNLOCKED. Next: run it without --unlocked-env" in as_markdown(elsewhere)


def test_a_caveat_of_every_claim_stands_in_no_row(decided):
    report = ComparisonReport(decided)
    ratios, times = report.tables()
    letters = {caveat.code: letter for caveat, letter in report.caveats.items()}
    assert all(letters["imported"] not in row[6].text.split() for row in ratios.rows)
    marked = {row[0].text for row in ratios.rows if letters["departure"] in row[6].text.split()}
    assert marked == {"Triton main: Hopper WS, masked loop"}
    assert all(letters["device-unknown"] in row[6].text.split() for row in times.rows)


def test_the_document_is_json_and_says_all(decided):
    document = json.loads(json.dumps(as_document(decided), allow_nan=False))
    assert document["outcome"] == "NOT REPRODUCED" and document["exit_code"] == 1
    assert document["rules"] == {
        "ratio": 0.05, "absolute": 0.05, "resolution": 0.15, "confidence": 0.95
    }  # fmt: skip
    assert document["counts"]["ratio"]["NOT REPRODUCED"] == 3
    assert document["counts"]["all"]["REPRODUCED"] == 39
    claim = next(c for c in document["claims"] if c["kind"] == "ratio" and c["backend"] == "v1")
    assert claim["published"]["value"] == pytest.approx(0.5402, abs=1e-4)
    assert claim["run"]["low"] < claim["run"]["value"] < claim["run"]["high"]
    assert claim["reasons"][0]["code"] == "outside" and claim["reasons"][0]["next"]
    assert document["published"]["origin"] == "published"


def test_nothing_in_common(theirs, manifest, complete):
    comparison = compare(complete, theirs, manifest)
    text = as_text(comparison)
    assert "verdict:    INCOMPARABLE; 0 of 0 claims could be decided" in text
    assert "Only in the run: CPU: direct softmax (cpu-direct)" in text
    assert "S=4096" in text and "Croqtile v1: sequential (v1)" in text
    assert "next: artifact run --workload prefill-d128" in text
    assert "Only in the published run" in as_markdown(comparison)


def test_hostile_texts_act_nowhere(theirs, manifest, hostile):
    comparison = compare(hostile, theirs, manifest)
    text = as_text(comparison)
    assert "\x1b" not in text and "\u202e" not in text
    assert not re.search(r"(?<!\\)<(?!!-- -->)", as_markdown(comparison))


def test_letters():
    assert [_letters(i) for i in (0, 25, 26, 27, 51, 52, 701, 702)] == [
        "a", "z", "aa", "ab", "az", "ba", "zz", "aaa"
    ]  # fmt: skip
