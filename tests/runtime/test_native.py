"""The parts of the native runtime that need no GPU, against Python and the specification."""

from __future__ import annotations

import hashlib
import json
import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from artifact.model.results import Figures

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests/assets/native"
Ask = Callable[..., str]


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 1000, 100_000])
@pytest.mark.parametrize("piece", [1000, 64, 7])
def test_sha256_is_hashlibs(ask: Ask, size: int, piece: int) -> None:
    """In pieces of any size, portable and with the processor's instructions."""
    data = np.random.default_rng(size).bytes(size)
    expected = hashlib.sha256(data).hexdigest()
    assert ask("sha256", str(piece), given=data).split() == [expected, expected]


def test_inputs_on_the_host_are_the_specifications(ask: Ask) -> None:
    """The digests of docs/numerics.md, of every tensor whose size is a multiple of four."""
    text = (ROOT / "docs/numerics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| ([\d, ]+) \| ([QKV]) \| ([0-9a-f]{64}) \|$", text, re.M)
    wanted: dict[tuple[int, int], dict[str, str]] = {}
    for seed, shape, tensor, digest in rows:
        count = math.prod(int(n) for n in shape.split(","))
        if count % 4 == 0 and count < 10_000_000:
            wanted.setdefault((int(seed, 0), count), {})[tensor.lower()] = digest
    assert len(wanted) == 5
    for (seed, count), digests in wanted.items():
        lines = ask("inputs", str(seed), str(count)).splitlines()
        assert dict(line.split() for line in lines) == digests


def raw(shape: tuple[int, ...], band_rows: int) -> dict[str, Any]:
    bands = -(-shape[1] // band_rows)
    return {
        "shape": shape,
        "band_rows": band_rows,
        "band_max": [0.25 + 0.125 * i for i in range(2 * bands)],
        "band_sum": [1.5 * (i + 1) for i in range(2 * bands)],
        "extremes": [1.0, 0.5],
        "counts": [0, 0],
    }


@pytest.mark.parametrize("seq", [256, 1024, 1152, 4096])
def test_figures_cover_the_output(ask: Ask, seq: int) -> None:
    shape = (2, seq, 3, 128)
    given = raw(shape, 1024)
    answer = json.loads(ask("figures", given=json.dumps(given)))
    figures = Figures.model_validate_json(json.dumps(answer["figures"]))
    assert figures.elements == math.prod(shape)
    assert figures.rows == 6 * seq
    assert (figures.nonfinite, figures.outside_tolerance) == (0, 0)
    assert (figures.max_abs, figures.max_abs0) == (1.0, 0.5)
    assert len(figures.bands) == -(-seq // 1024)
    assert sum(band.rows for band in figures.bands) == figures.rows
    worst = 2.0
    for i, band in enumerate(figures.bands):
        assert (band.first, band.last) == (1024 * i, min(1024 * (i + 1), seq) - 1)
        assert (band.e_max, band.e0_max) == tuple(given["band_max"][2 * i : 2 * i + 2])
        assert band.e_rms == math.sqrt(given["band_sum"][2 * i] / band.rows)
        assert band.e0_rms == math.sqrt(given["band_sum"][2 * i + 1] / band.rows)
        worst = max(worst, band.e_max / band.e0_max, band.e_rms / band.e0_rms)
    assert answer["published"] is True
    assert answer["ratio"] == pytest.approx(worst, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "published", "ratio"),
    [
        ({}, True, 2.0),
        ({"counts": [1, 1]}, False, None),
        ({"counts": [0, 1]}, False, 2.0),
        ({"extremes": [None, 0.5]}, False, None),
        ({"extremes": [0.0, 0.0]}, True, 1.0),
        ({"extremes": [0.5, 0.0]}, True, None),
        ({"extremes": [0.75, 0.5]}, True, 1.5),
        ({"band_max": [None, 1.0]}, True, None),
        ({"band_max": [1.0, 0.25]}, True, 4.0),
        ({"band_max": [1.0, None]}, True, None),
        ({"band_sum": [400.0, 16.0]}, True, 5.0),
        ({"band_sum": [None, 16.0]}, True, None),
    ],
)
def test_verdicts(ask: Ask, change: dict[str, Any], published: bool, ratio: float | None) -> None:
    """No figure that is not finite passes, and the worst ratio is that of the strict gate."""
    given = {
        **raw((1, 256, 1, 128), 1024),
        "band_max": [1.0, 1.0],
        "band_sum": [1.0, 1.0],
        **change,
    }
    answer = json.loads(ask("figures", given=json.dumps(given)))
    assert (answer["published"], answer["ratio"]) == (published, ratio)


def test_direct_use_follows_options_before_the_environment(ask: Ask) -> None:
    def parsed(*arguments: str, **env: str) -> dict[str, Any]:
        answer = json.loads(ask("options", *arguments, **env))
        assert isinstance(answer, dict)
        return answer

    usual = parsed()
    assert usual == {
        "lengths": [4096, 8192, 16384], "batch": 4, "heads": 32, "seed": 42, "timing": True,
        "warmup": 50, "repeat": 200, "stress": 0, "parameters": {},
    }  # fmt: skip
    assert parsed(MHA_SEQ="8192") == {**usual, "lengths": [8192]}
    assert parsed("--seq", "512", MHA_SEQ="8192")["lengths"] == [512]
    assert parsed(CHOREO_DISABLE_TIMING="1")["timing"] is False
    assert parsed(CHOREO_DISABLE_TIMING="0")["timing"] is True
    assert parsed(CHOREO_DISABLE_TIMING="")["timing"] is True
    assert parsed("--no-timing")["timing"] is False
    small = parsed(
        "--batch", "1", "--heads", "2", "--seed", str(2**64 - 1), "--stress", "1000",
        "--warmup", "0", "--repeat", "1", "--parameter", "persistent-ctas=132",
    )  # fmt: skip
    assert (small["batch"], small["heads"], small["seed"]) == (1, 2, 2**64 - 1)
    assert (small["warmup"], small["repeat"], small["stress"]) == (0, 1, 1000)
    assert small["parameters"] == {"persistent-ctas": 132}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seq"], "--seq needs a value"),
        (["--seq", "0"], "--seq takes an integer from 1"),
        (["--seq", "4k"], '"4k"'),
        (["--seq", "99999999999999999999"], "--seq takes an integer"),
        (["--repeat", "0"], "--repeat takes an integer from 1"),
        (["--seed", "-1"], "--seed takes an integer from 0"),
        (["--seed", str(2**64)], "--seed takes an integer from 0"),
        (["--parameter", "x"], "NAME=VALUE"),
        (["--parameter", "=1"], "NAME=VALUE"),
        (["--parameter", "x=y"], "--parameter x takes an integer"),
        (["--quick"], 'there is no option "--quick"'),
        (["4096"], 'there is no option "4096"'),
        (["--worker"], "--worker needs --backend"),
        (["--worker", "--backend", "v1", "--seq", "512"], "--seq does not go with --worker"),
        (["--worker", "--backend", "v1", "--no-timing"], "--no-timing does not go with"),
        (["--backend", "v1"], "--backend needs --worker"),
        (["--profile-window"], "--profile-window needs --worker"),
    ],
)
def test_options_that_are_refused(ask: Ask, arguments: list[str], message: str) -> None:
    assert message in ask("options", *arguments, status=1)


def test_a_bad_length_in_the_environment_is_named(ask: Ask) -> None:
    assert "MHA_SEQ takes an integer" in ask("options", status=1, MHA_SEQ="8192 ")


GOOD_MAP = {
    "base": 4096, "dims": [64, 8192, 64], "pitches": [8192, 128], "box": [64, 128, 2],
    "swizzle": 128,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, ""),
        ({"swizzle": 0}, ""),
        ({"box": [32, 256, 1], "swizzle": 64}, ""),
        ({"base": 4104}, "the address is null or no multiple of 16 bytes"),
        ({"base": 0}, "the address is null or no multiple of 16 bytes"),
        ({"dims": [64, 0, 64]}, "dims[1] is 0, not 1 to 2^32"),
        ({"dims": [64, 2**32 + 1, 64]}, "dims[1] is 4294967297, not 1 to 2^32"),
        ({"pitches": [8200, 128]}, "pitches[0] is 8200 bytes, no multiple of 16 below 2^40"),
        ({"pitches": [8192, 2**40]}, "pitches[1] is 1099511627776 bytes, no multiple of 16"),
        ({"box": [64, 257, 2]}, "box[1] is 257, not 1 to 256"),
        ({"box": [64, 0, 2]}, "box[1] is 0, not 1 to 256"),
        ({"box": [4, 128, 2]}, "a row of the box has 8 bytes, no multiple of 16"),
        ({"box": [128, 128, 1]}, "a row of the box has 256 bytes, more than the swizzle's 128"),
        ({"swizzle": 64}, "a row of the box has 128 bytes, more than the swizzle's 64"),
        ({"swizzle": 16}, "a swizzle of 16 bytes is none of 0, 32, 64, 128"),
        ({"dims": [1] * 6, "pitches": [16] * 5, "box": [8] * 6}, "the rank is 6, not 1 to 5"),
    ],
)
def test_tensor_maps_that_the_hardware_does_not_have(
    ask: Ask, change: dict[str, Any], problem: str
) -> None:
    answer = ask("tensor-maps", given=json.dumps({**GOOD_MAP, **change}) + "\n")
    assert answer.startswith(problem)
    assert bool(answer.strip()) == bool(problem)


def test_checks_of_host_code_name_their_place(ask: Ask) -> None:
    lines = dict(line.split(": ", 1) for line in ask("errors").splitlines())
    assert re.search(r"checks\.cu:\d+: a CUDA call failed: cudaErrorInvalidValue \(", lines["cuda"])
    assert re.search(r"checks\.cu:\d+: .* CUresult 1$", lines["driver"])
    assert lines["success"] == "no error"
    assert re.search(r"checks\.cu:\d+: a call failed$", lines["flag"])
    assert re.search(r"checks\.cu:\d+: sums are wrong$", lines["check"])
    assert re.search(r"checks\.cu:\d+: assertion failed: never$", lines["assert"])
    assert lines["extent"].endswith("an extent is negative")
    assert lines["index"].endswith("an index is outside of its dimension")
    assert "n - 1 pitches" in lines["ranks"]


def test_host_code_of_a_co_file_compiles_and_runs(compile_native: Callable[..., Path]) -> None:
    """Every name that choreo.h promises, against choreo.h alone."""
    done = subprocess.run(
        [str(compile_native("sample", "-O1", "--use_fast_math", SOURCES / "sample.cu"))],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    first, second = done.stdout.splitlines()
    assert first == "host: good"
    assert second in ("device: none", "device: good")


def test_the_harness_takes_another_compilers_choreo_h(
    compile_native: Callable[..., Path],
) -> None:
    """What --choreo-include names is searched first; nothing of our choreo.h gets in its way."""
    program = compile_native("foreign", "-O1", "-I", SOURCES / "foreign", SOURCES / "foreign.cu")
    done = subprocess.run([str(program), "--help"], capture_output=True, text=True, timeout=60)
    assert "implementation foreign" in done.stdout


def test_the_oracle_is_the_same_with_fast_math(
    compile_native: Callable[..., Path], tmp_path: Path
) -> None:
    """Native kernels are compiled with it, the Python workers' copy of the oracle is not."""
    source = tmp_path / "oracle.cu"
    source.write_text('#include "philox.cuh"\n#include "oracle.cuh"\n')
    texts = []
    for flags in ((), ("--use_fast_math",)):
        ptx = compile_native("oracle.ptx", "-ptx", *flags, source).read_text()
        # Subnormal numbers are flushed, which inputs of these ranges do not meet.
        texts.append([line.replace(".ftz", "") for line in ptx.splitlines() if "//" not in line])
    assert texts[0] == texts[1]
    assert any("ex2.approx" in line for line in texts[0])


def test_the_headers_of_host_code_need_the_standard_library_and_cuda_alone() -> None:
    allowed = re.compile(r"cuda(\.h|_\w+\.h)|[a-z_0-9]+")
    for header in [ROOT / "runtime/choreo.h", *sorted((ROOT / "runtime/choreo").glob("*.h"))]:
        text = header.read_text(encoding="utf-8")
        for name in re.findall(r"#include <([^>]+)>", text):
            assert allowed.fullmatch(name), f"{header.name} includes <{name}>"
        for name in re.findall(r'#include "([^"]+)"', text):
            assert (header.parent / name).is_file()
