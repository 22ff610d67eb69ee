"""Import the published H800 run of 2026-09-21 as a run folder.

    python benchmarks/import_published.py SAMPLES.csv [--into results]

SAMPLES.csv has the 81 published samples, a row each: ``backend,suite_position,sequence,round,ms``.
Everything else that was published of that run stands in this file; what was not published is
null in results.json, with the reason under ``absent``. Nothing is read from the manifest, so
that a later change of it changes nothing here. The folder is verified before it gets its name,
and a folder that is there is never touched.

The same CSV and the same version of the tool give the same results.json, summary.csv and
summary.md; the figures, which results.json pins, follow matplotlib's version.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from artifact import __version__
from artifact.bench.check import verify_run
from artifact.bench.rundir import RESULTS, pins
from artifact.bench.schedule import schedule, suite_order
from artifact.bench.summary import summarise
from artifact.errors import ArtifactError, UsageError, VerificationError
from artifact.integrity.atomic import write_atomic
from artifact.model.backend import Dependency
from artifact.model.load import decode, dump_json, read_bytes
from artifact.model.manifest import StatisticsRules
from artifact.model.protocol import Protocol
from artifact.model.results import (
    ArtifactRef,
    BackendRun,
    CheckRecord,
    Device,
    GateVerdict,
    Headings,
    Metric,
    RunResults,
    Sample,
    State,
    ToolRef,
)
from artifact.model.workload import Shape, Workload
from artifact.report.base import write_reports

RUN_ID = "20260921-h800-bf16"
HEADER = ["backend", "suite_position", "sequence", "round", "ms"]
SEQUENCES = (4096, 8192, 16384)
ANCHOR = "fa3"

TORCH = {"torch": "2.11.0+cu130"}
NATIVE = {"CUDA Toolkit": "13.0.88"}
#: name -> title, environment, versions
BACKENDS: dict[str, tuple[str, str | None, dict[str, str]]] = {
    "v1": ("Croqtile v1: sequential", None, NATIVE),
    "v2": ("Croqtile v2: 1p2c TMA (fixed output)", None, NATIVE),
    "v4": ("Croqtile v4: non-persistent overlap", None, NATIVE),
    "v3": ("Croqtile v3: persistent overlap", None, NATIVE),
    ANCHOR: ("FlashAttention-3", "main", {**TORCH, "FlashAttention-3": "3.0.0"}),
    "tilelang": ("TileLang: 128 x 128, 2 stages", "main", {**TORCH, "tilelang": "0.1.9"}),
    "triton": ("Triton 3.6: autotuned, no WS", "main", {**TORCH, "triton": "3.6.0"}),
    "triton-ws": (
        "Triton main: Hopper WS, masked loop",
        "triton-ws",
        {"torch": "2.10.0+cu128", "triton": "3.8.0+gita59d32fd"},
    ),
}

#: backend -> elements checked and largest absolute error, a pair for each sequence length.
#: One figure was published for the native kernels together.
_NATIVE_CHECKS = ((4096, 0.00195), (4096, 0.00202), (4096, 0.00194))
CHECKS: dict[str, tuple[tuple[int, float], ...]] = {
    ANCHOR: ((261760, 0.00253), (262016, 0.00288), (262016, 0.00297)),
    **dict.fromkeys(("v1", "v2", "v4", "v3"), _NATIVE_CHECKS),
}

PROTOCOL = Protocol(
    name="paper",
    clock="cuda-events",
    order="paper",
    warmup=50,
    repeat=200,
    rounds=3,
    max_temperature_c=65.0,
    max_wait_s=600.0,
)
WORKLOAD = Workload(
    name="prefill-d128",
    title="Causal prefill, B=4, H=32, D=128",
    device="gpu",
    comparable=True,
    seed=42,
    shapes=tuple(Shape(name=f"S={s}", dims={"B": 4, "H": 32, "S": s, "D": 128}) for s in SEQUENCES),
    protocols={"paper": "paper"},
)
METRIC = Metric(
    name="TFLOPS",
    work="2*B*H*S*S*D",
    per_second=1e12,
    explanation="TFLOPS = 2*B*H*S*S*D / (ms*1e9): useful causal QK and PV work; scalar softmax "
    "work and extra diagonal-tile arithmetic are not counted.",
)
STATISTICS = StatisticsRules(confidence=0.95, tie=0.01, max_drift=0.05)
DEVICE = Device(
    kind="gpu",
    name="NVIDIA H800 PCIe",
    target="h800-pcie",
    facts={
        "driver": "590.48.01",
        "compute_capability": "9.0",
        "sms": 114,
        "temperature_c_before": 38,
        "sm_mhz_before": 345,
        "memory_mhz_before": 1593,
        "power_w_before": 50.76,
    },
)

DEPENDENCIES = (
    Dependency(
        name="CUDA Toolkit",
        version="13.0.88",
        role="compiled the generated CUDA",
    ),
    Dependency(
        name="CUTLASS",
        revision="b50d8fd7196e1c5801c1bd8edf1d64e4bf9add6c",
        uri="pkg:github/nvidia/cutlass@b50d8fd7196e1c5801c1bd8edf1d64e4bf9add6c",
        role="headers that the generated CUDA included",
    ),
    Dependency(
        name="Croqtile",
        revision="4581f53edd51c55b3faf9edb4575e4b2e1de9cfe",
        uri="pkg:github/lancerlab/croqtile@4581f53edd51c55b3faf9edb4575e4b2e1de9cfe",
        role="generated the CUDA, with the flags -es -t cute -arch=sm_90a --use-fast-math "
        "--stmatrix --disable-runtime-check=true --zero-cost=true",
    ),
    Dependency(
        name="FlashAttention-3",
        version="3.0.0",
        revision="c18420006570a1f6f7abbe0544817e467b22ed88",
        uri="pkg:github/dao-ailab/flash-attention@c18420006570a1f6f7abbe0544817e467b22ed88",
        role="the baseline to which ratios are taken",
    ),
    Dependency(
        name="PyTorch", version="2.11.0+cu130", role="the Python baselines but warp-specialized"
    ),
    Dependency(name="TileLang", version="0.1.9", role="a baseline"),
    Dependency(name="Triton", version="3.6.0", role="a baseline"),
    Dependency(name="PyTorch", version="2.10.0+cu128", role="the warp-specialized baseline"),
    Dependency(
        name="Triton",
        version="3.8.0+gita59d32fd",
        revision="a59d32fd4fcd9a50d8361356d415402d753fe0e3",
        role="the warp-specialized baseline, from the main branch",
    ),
    Dependency(
        name="flash-attention-standalone.zip",
        sha256="3e0fd95cfd0e2ccdfafd329e99adf74d3c5040adeb019a7ef13d267228fc1753",
        role="the published archive, whose results file holds these samples",
    ),
    Dependency(
        name="flash-attention-standalone.tar.gz",
        sha256="0a459d32985b0da1cc3cd1b6f75e909a106d30b9bf75038b41e4f86c0d857e34",
        role="the same as a tar.gz",
    ),
)

NOTES = (
    "Figures that were published earlier, imported. This tool measured none of them; kernels, "
    "headers and scripts of that measurement were others than those of this artifact.",
    "Medians were published. Intervals, ratios and verdicts follow from the published samples by "
    "the rules of this artifact.",
    "The clocks of the GPU were not locked and the implementations were measured one after the "
    "other: the two passes of FlashAttention-3 show how far the machine moved between them. At "
    "S=4096 the spread is largest. A gap of a few percent is no win.",
    "Inputs and outputs are BF16 with FP32 accumulation. Both Triton implementations were given "
    "BHSD tensors and the others BSHD; the conversion was not timed.",
    "No CUDA graphs: the output allocation and launch code of the Python implementations is "
    "inside of what is timed, compilation, autotuning, checks and one-time set-up are not. These "
    "are times of warmed-up calls, not latencies of an application.",
    "The warp-specialized Triton kernel is one masked causal loop for a newer compiler, and no new "
    "measurement of the older implementation.",
    "Outputs were checked on samples of their elements, by abs(error) <= 0.05 + 0.1 * "
    "abs(reference), which is loose for long rows. Two harnesses drew the inputs, with the seed 42 "
    "each but not the same bits.",
)

_SAMPLE_FACTS = "the GPU's state was not published for each sample"
ABSENT = {
    "artifact.version": "the published archive carries none; its SHA-256 is a dependency",
    "artifact.content_id": "the published archive has no content id",
    "artifact.lock_blake3": "the published archive has no lock of this kind, so there is no "
    "lock.json beside this file",
    "tool.python": "no byte of this document depends on the Python that imported it",
    "machine": "the host was not published",
    "build": "what nvcc reported was not published",
    "device.facts.power_limit_w": "not published",
    "device.facts.uuid_blake3": "not published; nor VBIOS, ECC, MIG and persistence mode",
    "finished": "the run has one time stamp, which stands as its start",
    "gates": "that run had the published tolerance alone, on samples of the output: no strict gate",
    "interpreters": "versions of Python were not published; libraries stand at the backends",
    "backends[*].worker": "another program than ours measured them",
    "backends[*].env": "not published",
    "backends[*].log": "the published archives hold raw logs; they were not handed over, so there "
    "is no logs/ beside this file",
    "backends[v1,v2,v4,v3].environment": "a native kernel needs no Python environment",
    "checks[*].inputs": "no digest of the inputs was published; the two harnesses drew other bits",
    "checks[*].strict": "that run had no strict gate",
    "checks[*].figures": "errors of bands of rows were not measured",
    "checks[*].controls": "no known-wrong outputs were tried",
    "checks[v1,v2,v4,v3].max_abs_error": "one figure a shape was published for the native kernels "
    "together; it stands at each of them",
    "checks[tilelang,triton,triton-ws].checked_elements": "known for the Python implementations "
    "together: 261760 to 262016 elements a shape",
    "checks[tilelang,triton,triton-ws].max_abs_error": "known for the Python implementations "
    "together: 0.00298 or less",
    "witnesses": "not published; of the warp-specialized kernel alone it is known that its wrapper "
    "demanded 384 threads",
    "protocol.max_wait_s": "how long that runner would have waited was not published; ours stands "
    "there",
    "samples[*].started": "not published",
    "samples[*].seconds": "not published",
    "samples[*].device": _SAMPLE_FACTS,
    "times": "not published",
}


def read_samples(data: bytes, where: str) -> tuple[Sample, ...]:
    """The samples in the order of the CSV.

    Raises:
        VerificationError: with the line of what is not as it should be.
    """
    lines = list(csv.reader(decode(data, where).splitlines()))
    if lines[0] != HEADER:
        raise VerificationError(
            "this is not the table of samples",
            where=f"{where}:1",
            expected=",".join(HEADER),
            found=",".join(lines[0]),
        )
    samples = []
    for number, cells in enumerate(lines[1:], start=2):
        try:
            backend, position, sequence, round_, ms = cells
            samples.append(
                Sample(
                    backend=backend,
                    shape=f"S={int(sequence)}",
                    position=int(position),
                    round=int(round_),
                    ms=float(ms),
                )
            )
        except ValueError as error:
            raise VerificationError(
                "a row is no sample", where=f"{where}:{number}", found=",".join(cells)
            ) from error
    return tuple(samples)


def _checks() -> tuple[CheckRecord, ...]:
    unknown = ((None, None),) * len(SEQUENCES)
    return tuple(
        CheckRecord(
            backend=backend,
            shape=shape.name,
            inputs={},
            published=GateVerdict(passed=True),
            strict=None,
            figures=None,
            controls=(),
            checked_elements=elements,
            max_abs_error=error,
        )
        for backend in BACKENDS
        for shape, (elements, error) in zip(
            WORKLOAD.shapes, CHECKS.get(backend, unknown), strict=True
        )
    )


def make_results(data: bytes, name: str) -> RunResults:
    """The results document of the run, before its files are pinned.

    Args:
        data: The CSV.
        name: Its file name, which is recorded.

    Raises:
        VerificationError: where the CSV is not the table of samples.
    """
    samples = read_samples(data, name)
    summary, comparisons = summarise(
        samples, WORKLOAD, list(BACKENDS), ANCHOR, METRIC, STATISTICS, PROTOCOL
    )
    return RunResults(
        results_version=1,
        run_id=RUN_ID,
        origin="published",
        complete=True,
        state=State(phase="done"),
        started="2026-09-21T10:05:14Z",
        artifact=ArtifactRef(
            name="flash-attention-standalone", version=None, content_id=None, lock_blake3=None
        ),
        tool=ToolRef(
            name="artifact",
            version=__version__,
            python=None,
            command=("python", "benchmarks/import_published.py", name),
        ),
        machine=None,
        device=DEVICE,
        workload=WORKLOAD,
        protocol=PROTOCOL,
        protocol_digest=PROTOCOL.digest(),
        metric=METRIC,
        statistics=STATISTICS,
        headings=Headings(
            title="Causal prefill attention, BF16, D=128",
            caption="Bars show throughput at the median latency; whiskers show the full observed "
            "range, not a confidence interval.",
            axis="Sequence length",
        ),
        order=suite_order(
            schedule(PROTOCOL, list(BACKENDS), [s.name for s in WORKLOAD.shapes], ANCHOR)
        ),
        backends=tuple(
            BackendRun(
                name=backend,
                title=title,
                anchor=backend == ANCHOR,
                environment=environment,
                worker=None,
                worker_blake3=None,
                versions=versions,
            )
            for backend, (title, environment, versions) in BACKENDS.items()
        ),
        checks=_checks(),
        samples=samples,
        summary=summary,
        comparisons=comparisons,
        dependencies=(
            *DEPENDENCIES,
            Dependency(
                name=name,
                sha256=hashlib.sha256(data).hexdigest(),
                role="the samples, as they were handed to the import",
            ),
        ),
        notes=NOTES,
        absent=ABSENT,
    )


def write_run(results: RunResults, into: Path) -> Path:
    """The run folder of ``results`` in ``into``: whole and verified, or not there.

    Raises:
        UsageError: where the folder is there already, or ``into`` is not.
        VerificationError: where the run does not agree with itself.
        EnvironmentUnmet: where something cannot be written.
    """
    folder = into / results.run_id
    if not into.is_dir():
        raise UsageError(
            "there is no such directory", where=str(into), next=f"mkdir -p {shlex.quote(str(into))}"
        )
    if folder.exists():
        raise UsageError(
            "the run folder is there already",
            where=str(folder),
            next=f"artifact verify {folder}; to import it again, move it away or use --into DIR",
        )
    with tempfile.TemporaryDirectory(prefix=f"{results.run_id}-", dir=into) as scratch:
        made = Path(scratch) / results.run_id
        made.mkdir()
        write_reports(results, made)
        pinned = results.model_copy(update={"files": pins(made)})
        write_atomic(made / RESULTS, dump_json("results", pinned, RESULTS))
        verify_run(made).require()
        shutil.move(made, folder)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("csv", type=Path, help="the published samples")
    parser.add_argument(
        "--into",
        type=Path,
        default=Path(__file__).resolve().parent.parent / "results",
        help="where the run folder is made",
    )
    options = parser.parse_args()
    try:
        print(write_run(make_results(read_bytes(options.csv), options.csv.name), options.into))
    except ArtifactError as error:
        print(error.render(), file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
