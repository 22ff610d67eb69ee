"""A GPU watched through a fake NVML."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from artifact.bench.card import Reading
from artifact.bench.device import list_gpus
from artifact.bench.gpuwatch import GpuWatch, invalid_reasons, summary, trace_csv
from artifact.bench.neighbours import Neighbours
from artifact.errors import EnvironmentUnmet, MeasurementInvalid
from artifact.model.protocol import Protocol

Make = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("no_watch_left")


Wait = Callable[[Callable[[], object]], None]


def protocol(limit: float | None = 65.0, wait: float = 0.2) -> Protocol:
    return Protocol(
        name="p", clock="cuda-events", order="paper", warmup=1, repeat=1, rounds=1,
        max_temperature_c=limit, max_wait_s=wait,
    )  # fmt: skip


@pytest.fixture
def watch(fake_nvml: Make, gpu_card: Make) -> Any:
    """Makes a watch of a card; it is closed at the end, and NVML with it."""
    made: list[tuple[GpuWatch, Any]] = []

    def make(*, limit: float | None = 65.0, wait: float = 0.2, **card: Any) -> GpuWatch:
        options = {k: card.pop(k) for k in ("say", "sleep", "answer_s") if k in card}
        nvml = fake_nvml(gpu_card(**card))
        (gpu,) = list_gpus(nvml)
        neighbours = Neighbours(True, lambda roots: roots)
        watch = GpuWatch(gpu, protocol(limit, wait), nvml, neighbours=neighbours, **options)
        watch.workers([100, 101])
        made.append((watch, nvml))
        return watch

    yield make
    for watch, nvml in made:
        # A watch waits for its thread only so long, which a busy machine may exceed.
        watch._answer_s = 120.0
        nvml.release.set()
        watch.close()
        watch.close()
        assert nvml.running == 0


def test_a_window_has_its_part_of_the_trace(watch: Make, wait_until: Wait) -> None:
    one = watch(processes=iter([[], *[[100, 101]] * 9999]).__next__)
    one.begin()
    wait_until(lambda: len(one._thread.taken) >= 5)
    facts, reasons = one.end()
    assert reasons == ()
    assert len(facts) <= 15
    taken = one._thread.taken
    assert facts["readings"] == len(taken) >= 6
    # Twenty times a second and no oftener; only the end of a window does not wait its turn.
    gaps = [b.at - a.at for a, b in itertools.pairwise(taken[:-1])]
    assert min(gaps) >= 0.05
    assert (facts["sm_mhz_min"], facts["sm_mhz_mean"], facts["sm_mhz_max"]) == (1980, 1980, 1980)
    assert facts["clock_events"] == "software power cap"
    assert (facts["temperature_c_max"], facts["power_w_mean"]) == (40, 650.0)
    between = one.facts()["trace_readings"]
    time.sleep(0.15)
    assert one.facts()["trace_readings"] == between, "it reads between windows"
    lines = one.files()["trace.csv"].decode().splitlines()
    assert len(lines) == 1 + facts["readings"]
    assert lines[1].startswith("0.000,0,1980,3201,40,650.0,0x4")
    assert one.facts()["processes"] == "told apart by process id"
    assert 0 <= one.facts()["trace_cpu_s"] < 1


def test_nothing_is_written_of_no_window(watch: Make) -> None:
    one = watch()
    assert one.files() == {}
    assert "trace_readings" not in one.facts()
    assert one.facts()["sms"] == 8


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (0x8, "hardware slowdown"),
        (0x20, "software thermal slowdown"),
        (0x40, "hardware thermal slowdown"),
        (0x80, "hardware power brake"),
    ],
)
def test_a_slowdown_within_a_window_makes_it_invalid(watch: Make, mask: int, said: str) -> None:
    # The first reading is of the facts, the second the beginning of the window.
    one = watch(reasons=[0x4, 0x4, 0x4 | mask, 0x4])
    one.begin()
    time.sleep(0.1)
    facts, reasons = one.end()
    assert reasons == (f"the GPU reported: {said}",)
    assert facts["clock_events"] == f"software power cap, {said}"
    one.begin()
    assert one.end()[1] == (), "a slowdown before a window is not the window's"


@pytest.mark.parametrize("when", ["beginning", "middle", "end", "before"])
def test_a_process_that_is_there_in_a_window(watch: Make, wait_until: Wait, when: str) -> None:
    running: list[int] = []
    asked: list[str] = []
    state = "before"

    def processes() -> list[int]:
        asked.append(state)
        return running

    one = watch(processes=processes)

    def there(now: str) -> None:
        nonlocal state
        state = now
        running[:] = [100, 666] if now == when else [100]

    there("before")
    there("beginning")
    one.begin()
    there("middle")
    # Within a window processes are looked at twice a second.
    if when == "middle":
        wait_until(lambda: asked.count("middle") >= 2)
    there("end")
    found = one.end()[1]
    assert found == (() if when == "before" else ("process 666 computed on the GPU",))


def test_a_process_that_was_there_before(fake_nvml: Make, gpu_card: Make) -> None:
    nvml = fake_nvml(gpu_card(processes=lambda: [4242]))
    with pytest.raises(EnvironmentUnmet, match="another process computes") as caught:
        GpuWatch(list_gpus(nvml)[0], protocol(), nvml)
    assert "4242" in str(caught.value.found)
    assert nvml.running == 0


def test_a_gate_waits_until_the_card_is_cool(watch: Make) -> None:
    said: list[str] = []
    slept: list[float] = []
    one = watch(temperatures=[70, 71, 68, 65], wait=60, say=said.append, sleep=slept.append)
    one.wait()
    assert slept == [1.0, 1.0]
    assert said == ["the GPU has 71 C: waiting for 65 C, 60 s at most"]
    one.wait()
    assert len(slept) == 2


def test_a_gate_waits_only_so_long(watch: Make) -> None:
    one = watch(temperatures=[80], wait=0.1)
    with pytest.raises(MeasurementInvalid, match="did not cool down") as caught:
        one.wait()
    assert caught.value.found == "80 C"
    assert caught.value.expected == "at most 65 C within 0.1 s"


def test_a_gate_needs_a_temperature(watch: Make) -> None:
    with pytest.raises(MeasurementInvalid, match="does not tell its temperature"):
        watch(temperatures=[]).wait()
    watch(temperatures=[], limit=None).wait()


def test_a_card_that_is_lost_within_a_window(watch: Make, wait_until: Wait) -> None:
    one = watch(lost_after=3)
    one.begin()
    wait_until(lambda: not one._thread.is_alive())
    _, reasons = one.end()
    assert reasons == ("NVML failed while the GPU was measured: GPU is lost",)
    for again in (one.begin, one.wait):
        with pytest.raises(MeasurementInvalid, match="NVML failed") as caught:
            again()
        assert caught.value.found == "GPU is lost"


def test_a_card_that_is_lost_before_the_first_window(fake_nvml: Make, gpu_card: Make) -> None:
    nvml = fake_nvml(gpu_card(lost_after=0))
    with pytest.raises(EnvironmentUnmet, match="NVML does not answer") as caught:
        GpuWatch(list_gpus(nvml)[0], protocol(), nvml)
    assert caught.value.found == "GPU is lost"
    assert nvml.running == 0


def test_a_driver_that_hangs_does_not_hang_the_run(watch: Make) -> None:
    one = watch(hangs_after=1, answer_s=0.2)
    begin = time.monotonic()
    with pytest.raises(MeasurementInvalid, match="NVML failed") as caught:
        one.begin()
    assert caught.value.found == "no answer within 0.2 s"
    assert time.monotonic() - begin < 19, "it waited for the driver, which hangs for 20 s"


def test_a_bug_in_the_thread_is_heard_of(watch: Make) -> None:
    one = watch(temperatures=[40])
    one._card.reading = lambda **_: 1 / 0
    with pytest.raises(MeasurementInvalid) as caught:
        one.begin()
    assert caught.value.found == "division by zero"


def test_it_sleeps_between_windows(watch: Make) -> None:
    one = watch()
    (thread,) = [t for t in threading.enumerate() if t.name == "gpu-watch"]
    time.sleep(0.3)
    assert thread.is_alive()
    assert one.facts().get("trace_readings") is None
    assert thread.taken == []


def reading(at: float, **values: Any) -> Reading:
    usual = dict.fromkeys(("sm_mhz", "memory_mhz", "temperature_c", "power_w", "reasons"))
    return Reading(at=at, **{**usual, **values})


def test_what_nvml_does_not_tell_is_null() -> None:
    facts = summary([reading(0.0), reading(1.0)])
    assert facts.pop("readings") == 2
    assert set(facts.values()) == {None}
    assert invalid_reasons([reading(0.0)]) == ()


def test_the_trace_names_windows() -> None:
    readings = [reading(10.0 + n, temperature_c=40 + n) for n in range(6)]
    text = trace_csv(readings, [(11.0, 12.0), (14.0, 14.5)]).decode()
    assert [line.split(",")[:2] for line in text.splitlines()[1:]] == [
        ["0.000", ""], ["1.000", "0"], ["2.000", "0"], ["3.000", ""], ["4.000", "1"], ["5.000", ""],
    ]  # fmt: skip
    assert text.splitlines()[1] == "0.000,,,,40,,"
    assert trace_csv([], []).count(b"\n") == 1
