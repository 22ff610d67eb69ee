import pytest

from artifact.model.results import PhaseTime, SeededCache
from artifact.report import evidence, facts, tables, words


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_the_published_table_is_the_worklogs(published):
    # The figures of the published table, digit for digit.
    table = tables.times(published)
    assert table.headers == (
        "Implementation",
        "S=4096 ms / TFLOPS",
        "S=8192 ms / TFLOPS",
        "S=16384 ms / TFLOPS",
    )
    expected = """
        FlashAttention-3 (anchor)            | 1.3944 / 394.3 | 5.3025 / 414.7 | 20.7054 / 424.8
        Croqtile v1: sequential              | 2.5813 / 213.0 | 9.2858 / 236.8 | 35.3457 / 248.9
        Croqtile v2: 1p2c TMA (fixed output) | 1.6600 / 331.2 | 6.1387 / 358.2 | 23.7090 / 371.0
        Croqtile v4: non-persistent overlap  | 1.4642 / 375.5 | 5.4563 / 403.0 | 21.1821 / 415.3
        Croqtile v3: persistent overlap      | 1.3967 / 393.6 | 5.2971 / 415.1 | 20.7939 / 423.0
        TileLang: 128 x 128, 2 stages        | 1.6511 / 333.0 | 6.2546 / 351.6 | 24.2038 / 363.4
        Triton 3.6: autotuned, no WS         | 1.7542 / 313.4 | 6.6744 / 329.5 | 25.9039 / 339.6
        Triton main: Hopper WS, masked loop  | 1.9217 / 286.1 | 6.9654 / 315.7 | 26.6264 / 330.4
    """
    assert texts(table) == [
        [cell.strip() for cell in line.split("|")] for line in expected.strip().splitlines()
    ]


def test_the_published_anchor_before_and_after(published):
    assert texts(tables.anchor_drift(published)) == [
        ["S=4096", "1.3908", "1.3980", "+0.52 %"],
        ["S=8192", "5.2543", "5.3796", "+2.39 %"],
        ["S=16384", "20.5006", "20.8591", "+1.75 %"],
    ]


def test_ratios_without_the_anchor_say_so(complete):
    alone = complete.model_copy(
        update={
            "backends": tuple(b for b in complete.backends if not b.anchor),
            "comparisons": tuple(
                c.model_copy(update={"verdict": "NO ANCHOR", "anchor": None, "ratio": None})
                for c in complete.comparisons
                if c.verdict != "ANCHOR"
            ),
        }
    )
    assert tables.ratios(alone) is None
    headings = alone.headings.model_copy(update={"anchor": "The <b>est"})
    made = tables.ratios(alone.model_copy(update={"headings": headings}))
    assert made.title == "Speed relative to The <b>est, which was not in this run"
    assert {cell for row in texts(made) for cell in row[1:]} == {"NO ANCHOR"}
    assert "Without The <b>est there is no ratio to it" in made.caption
    assert "anchor's" not in made.caption


def test_no_anchor_table_where_the_anchor_was_measured_once(interrupted):
    assert tables.anchor_drift(interrupted) is None


def test_no_anchor_table_in_interleaved_order(complete):
    protocol = complete.protocol.model_copy(update={"order": "interleaved"})
    assert tables.anchor_drift(complete.model_copy(update={"protocol": protocol})) is None


def test_invalid_samples_stay_out_of_the_anchor_medians(complete):
    valid = [s.ms for s in complete.samples if s.position == 0 and s.shape == "S=512" and s.valid]
    assert len(valid) == 2
    row = texts(tables.anchor_drift(complete))[1]
    assert row[1] == words.milliseconds(sum(valid) / 2)


def test_every_table_says_protocol_and_marks(every):
    made = [*facts.every_table(every), *filter(None, [tables.samples(every)])]
    assert len(made) >= 5
    for table in made:
        assert every.protocol_digest[:12] in table.caption
        assert every.protocol.name in table.caption
        for mark in words.marks(every):
            assert mark in table.caption


def test_every_table_of_times_carries_the_note(complete):
    for make in (tables.times, tables.ratios, tables.ranges, tables.verdicts, tables.anchor_drift):
        assert complete.workload.note in make(complete).caption


def test_cells_without_samples_are_empty_and_not_zero(interrupted):
    assert texts(tables.times(interrupted))[2][3] == words.NOTHING
    assert texts(tables.ratios(interrupted))[2][3] == words.NOTHING


def test_a_run_without_samples_has_no_tables_of_times(gate_failed):
    assert next(t.key for t in facts.every_table(gate_failed)) == "gates"
    assert tables.samples(gate_failed) is None


def test_ratios_show_interval_and_verdict(complete):
    cell = tables.ratios(complete).rows[1][1]
    row = next(c for c in complete.comparisons if c.backend == "cpu-forward")
    assert cell.text == f"{row.ratio:.3f} [{row.low:.3f}, {row.high:.3f}] {row.verdict}"
    assert cell.tone == "good"


def test_a_ratio_without_an_interval_has_no_brackets(interrupted):
    assert tables.ratios(interrupted).rows[1][1].text == "1.115 UNRESOLVED"


def test_no_ratio_table_without_an_anchor(complete):
    backends = tuple(b.model_copy(update={"anchor": False}) for b in complete.backends)
    assert tables.ratios(complete.model_copy(update={"backends": backends})) is None


def test_every_sample_is_shown_exactly(complete):
    rows = texts(tables.samples(complete))
    assert [float(row[4]) for row in rows] == [s.ms for s in complete.samples]
    assert rows[4][5] == "no; another process used the CPU"


def test_gates_count_rejected_controls(complete, published, gate_failed, changed):
    first = texts(evidence.gates(complete))[0]
    assert first == ["CPU: direct softmax", "S=384", "98,304", "0.00210", "passed", "passed",
                     "10/10", "3/10"]  # fmt: skip
    assert texts(evidence.gates(published))[0] == [
        "FlashAttention-3", "S=4096", "261,760", "0.00253", "passed", "not run", "–", "–"
    ]  # fmt: skip
    failed = evidence.gates(gate_failed).rows[3][5]
    assert failed.text.startswith("FAILED: largest absolute error") and failed.tone == "bad"
    missed = changed(complete, checks__0__controls__1__rejected=False)
    assert texts(evidence.gates(missed))[0][6] == "9/10; NOT rejected: dropped-tile first"


def test_a_nonfinite_error_is_said(complete, changed):
    broken = changed(complete, checks__0__figures__max_abs=None, checks__0__figures__nonfinite=3)
    assert evidence.gates(broken).rows[0][3] == ("not finite", "bad")


def test_thresholds_are_printed_where_they_are_known(complete, changed):
    gates = {
        "output": {"elements": "S", "rows": "S", "band_axis": "S", "band_rows": 8},
        "published": {"atol": 0.05, "rtol": 0.1},
        "strict": {"factor": 2.0},
        "controls": [{"name": "zeros", "description": "all zeros"}],
    }
    caption = evidence.gates(changed(complete, gates=gates)).caption
    assert "abs(error) <= 0.05 + 0.1 * abs(reference)" in caption
    assert "no more than 2 times" in caption
    rules = {"confidence": 0.95, "tie": 0.01, "max_drift": 0.05}
    caption = tables.verdicts(changed(complete, statistics=rules)).caption
    assert "95% confidence" in caption and "1.00 %" in caption and "5.00 %" in caption


def test_environment_names_what_differs_from_the_lock(complete):
    rows = dict(texts(facts.environment(complete)))
    assert "NOT as locked: numpy: locked 2.4.0, found 2.4.1" in rows["Interpreter: runner"]
    assert "not compared" not in rows["Interpreter: runner"]
    assert rows["Machine"] == "Example CPU @ 2.60GHz, 2 cores, 8.0 GiB memory"
    assert rows["Command"] == "run --workload cpu-demo --unlocked-env"
    assert rows["Device: smt"] == "yes"


def test_many_differences_have_a_table_of_their_own(complete, changed):
    lines = [f"p{n}: expected {n}, found 0" for n in range(4)]
    lines.append("$P/lib/x.pth: expected nothing, found a file of no distribution")
    results = changed(complete, interpreters__0__differences=lines[:3])
    other = results.interpreters[0].model_copy(update={"environment": "other"})
    other = other.model_copy(update={"differences": (*lines[2:], "odd")})
    results = results.model_copy(update={"interpreters": (*results.interpreters, other)})
    rows = dict(texts(facts.environment(results)))
    assert "; ".join(lines[:3]) in rows["Interpreter: runner"]
    assert "4 differences, in a table of their own" in rows["Interpreter: other"]
    assert texts(facts.differences(results)) == [
        ["p0", "expected 0, found 0", "runner"],
        ["p1", "expected 1, found 0", "runner"],
        ["p2", "expected 2, found 0", "runner, other"],
        ["p3", "expected 3, found 0", "other"],
        ["$P/lib/x.pth", "expected nothing, found a file of no distribution", "other"],
        ["odd", words.NOTHING, "other"],
    ]
    assert facts.differences(changed(complete, interpreters=[])) is None


def test_environment_says_that_files_were_not_compared(complete, changed):
    rows = dict(texts(facts.environment(changed(complete, interpreters__0__digests=False))))
    assert rows["Interpreter: runner"].endswith("; its files were not compared")


def test_a_published_run_says_that_it_was_not_measured_here(published):
    rows = dict(texts(facts.environment(published)))
    assert "not measured by this tool" in rows["Origin"]
    assert rows["Device: power limit, W"] == words.NOTHING
    assert rows["Content id"] == words.NOTHING
    assert "Machine" not in rows
    absent = dict(texts(facts.absent(published)))
    assert absent["machine"] == "the published record does not describe the host"


def test_witnesses_that_are_alike_share_a_row(complete):
    rows = texts(evidence.witnesses(complete))
    assert len(rows) == 3
    assert rows[0][1] == "S=384, S=512, S=2048"


def test_inputs_that_differ_are_told_apart(complete, changed):
    assert len(evidence.inputs(complete).rows) == 9
    other = changed(complete, checks__0__inputs__Q="0" * 64)
    assert len(evidence.inputs(other).rows) == 10


def test_phases_put_repeated_activities_together(complete):
    doubled = complete.model_copy(update={"times": (*complete.times, *complete.times)})
    rows = texts(evidence.phases(doubled))
    assert len(rows) == len(complete.times)
    assert rows[1] == ["prepare", "start workers", "–", "2", "2.40 s"]


def spent(complete, **seconds):
    times = [
        PhaseTime(phase="timing", activity=activity, backend="cpu-direct", seconds=value)
        for activity, value in seconds.items()
    ]
    return complete.model_copy(update={"times": tuple(times)})


def test_the_runners_share_is_what_nothing_else_took(complete):
    results = spent(
        complete,
        **{
            "start and import": 4, "setup: inputs": 5, "setup: compile": 10, "setup: other": 1,
            "check and controls": 3, "witness": 2, "wait for the device": 20, "warm-ups": 10,
            "timed windows": 40, "stop": 1, "runner": 1, "hash and compare the tree": 2,
            "something that nobody has heard of": 1,
        },
    )  # fmt: skip
    rows = {row[0]: row[1:] for row in texts(evidence.shares(results))}
    assert list(rows.values()) == [
        ["16.0 s", "16.00 %"], ["5.00 s", "5.00 %"], ["5.00 s", "5.00 %"], ["20.0 s", "20.00 %"],
        ["10.0 s", "10.00 %"], ["40.0 s", "40.00 %"], ["4.00 s", "4.00 %"],
        ["1 min 40 s", "100.00 %"],
    ]  # fmt: skip
    assert rows["The runner's own share"] == ["4.00 s", "4.00 %"]
    assert evidence.shares(spent(complete)) is None
    assert evidence.shares(spent(complete, runner=0.0)) is None


def test_what_a_gpu_did_is_put_together(complete):
    assert evidence.conditions(complete) is None
    device = {
        "readings": 9, "sm_mhz_min": 1755, "sm_mhz_mean": 1800.5, "sm_mhz_max": 1980,
        "memory_mhz_min": 3201, "temperature_c_min": 55, "temperature_c_max": 61,
        "power_w_mean": 680.2, "power_w_max": 701.0, "clock_events": "software power cap",
    }  # fmt: skip
    other = {**device, "sm_mhz_min": 1700, "power_w_mean": 650.0, "clock_events": "none"}
    unknown = {**dict.fromkeys(device), "readings": 3}
    first = complete.samples[0]
    samples = [first.model_copy(update={"device": facts_}) for facts_ in (device, other)]
    alone = first.model_copy(update={"device": unknown, "shape": "S=2048"})
    results = complete.model_copy(update={"samples": (*samples, alone)})
    rows = texts(evidence.conditions(results))
    assert rows[0][2:] == [
        "2", "1700–1980", "3201", "55–61", "650–680", "701", "software power cap",
    ]  # fmt: skip
    assert rows[1][2:] == ["1", "–", "–", "–", "–", "–", "not told"]


def test_caches_of_an_earlier_run_are_told(complete):
    cache = SeededCache(blake3="a" * 64, files=12, bytes=5)
    tool = complete.tool.model_copy(update={"seeded_cache": cache})
    rows = dict(texts(facts.environment(complete.model_copy(update={"tool": tool}))))
    assert rows["Compile caches"] == f"began with 12 files of an earlier run, blake3:{'a' * 64}"
    assert "Compile caches" not in dict(texts(facts.environment(complete)))


def test_the_error_of_a_run_is_told_in_full(interrupted):
    rows = dict(facts.error_rows(interrupted.state.error))
    assert rows["Phase"] == "timing"
    assert rows["Backend"] == "cpu-reverse"
    assert rows["Log"] == "logs/cpu-reverse.log"
    assert rows["Next"].startswith("read logs/cpu-reverse.log")
    assert "In detail" not in rows
    many = interrupted.state.error.model_copy(update={"details": ("one", "two")})
    assert dict(facts.error_rows(many))["In detail"] == "one\ntwo"


def test_a_table_with_a_short_row_is_a_bug():
    with pytest.raises(AssertionError, match="unequal length"):
        tables.Table("x", "x", ("a", "b"), "ll", ((tables.Cell("1"),),), "")
