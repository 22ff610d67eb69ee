"""benchmarks/sanitize.sh with programs in place of nvcc, compute-sanitizer and the kernels."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# What benchmarks/results/sanitizer-h200.txt and sanitizer_fault.cu say: the planted race is no
# error to CUDA, nor to memcheck.
NVCC = """while [ "$1" != -o ]; do shift; done
printf '#!/bin/bash\\necho "${CUDA:-no error}"\\n' >"$2"
chmod +x "$2"
"""
SANITIZER = """race="1 hazard displayed (1 error, 0 warnings)"
clean="0 hazards displayed (0 errors, 0 warnings)"
shift
tool=$1
shift
"$@" || exit
case "$tool $*" in
"memcheck "*/fault) echo "========= Invalid __global__ write of size 4 bytes" ;;
"racecheck "*/fault\\ race) echo "========= RACECHECK SUMMARY: $race" ;;
memcheck*) echo "========= ERROR SUMMARY: 0 errors" ;;
racecheck*) echo "========= RACECHECK SUMMARY: $clean" ;;
esac
"""
UNSUPPORTED = """echo "========= COMPUTE-SANITIZER"
echo "========= Error: Device not supported"
echo "========= ERROR SUMMARY: 1 error"
exit 255
"""


@dataclass(frozen=True)
class Place:
    """A copy of the script with the tools and executables that a test gives it."""

    root: Path

    def tool(self, name: str, body: str) -> None:
        file = self.root / "bin" / name
        file.unlink(missing_ok=True)  # never through the link to the machine's own
        self._write(file, body)

    def kernel(self, name: str) -> None:
        self._write(self.root / "build" / name, f'echo "$*" >>ran-{name}\n')

    def _write(self, file: Path, body: str) -> None:
        file.parent.mkdir(exist_ok=True)
        file.write_text("#!/bin/bash\n" + body)
        file.chmod(0o755)

    def start(self, *backends: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/bash", self.root / "benchmarks/sanitize.sh", *backends],
            cwd="/",
            env={"PATH": str(self.root / "bin"), **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def refusal(self, *backends: str, **variables: str) -> tuple[str, dict[str, str]]:
        """The one error, its headline and its answers; no kernel has run."""
        done = self.start(*backends, **variables)
        assert (done.returncode, done.stdout) == (3, "")
        head, *rest = done.stderr.splitlines()
        assert not list(self.root.glob("ran-*"))
        answers = dict(line.strip().split(":", 1) for line in rest)
        return head, {name: value.strip() for name, value in answers.items()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for name in ("benchmarks/sanitize.sh", "benchmarks/sanitizer_fault.cu", "envs/ensure-venv.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    made = Place(tmp_path)
    (tmp_path / "bin").mkdir()
    # Not the folders of PATH: a toolkit may be in any of them.
    for name in ("chmod", "dirname", "grep", "mktemp", "rm", "tail"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / "bin" / name).symlink_to(found)
    made.tool("nvcc", NVCC)
    made.tool("compute-sanitizer", SANITIZER)
    made.kernel("v1")
    made.kernel("v3")
    return made


def test_where_all_works_every_kernel_runs_under_both_tools(place: Place) -> None:
    done = place.start("v1", "v3:persistent-ctas=3")
    assert (done.returncode, done.stderr) == (0, "")
    memcheck = "exit 0; ========= ERROR SUMMARY: 0 errors; no gates"
    race = (
        "exit 0; ========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings); no gates"
    )
    assert done.stdout.splitlines() == [
        "planted, memcheck: ========= Invalid __global__ write of size 4 bytes",
        "planted, racecheck: ========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)",
        f"v1 S=640 memcheck: {memcheck}",
        f"v1 S=640 racecheck: {race}",
        f"v3:persistent-ctas=3 S=640 memcheck: {memcheck}",
        f"v3:persistent-ctas=3 S=640 racecheck: {race}",
    ]
    shape = "--seq 640 --batch 1 --heads 2"
    assert (place.root / "ran-v1").read_text() == f"{shape}\n" * 2
    assert (place.root / "ran-v3").read_text() == f"{shape} --parameter persistent-ctas=3\n" * 2


@pytest.mark.parametrize("tool", ["nvcc", "compute-sanitizer"])
def test_a_missing_tool_is_named_first(place: Place, tool: str) -> None:
    (place.root / "bin" / tool).unlink()
    head, answers = place.refusal("v1", "v9")
    assert head == f"error: {tool} is not there"
    assert "sanitize.sh v1 v9" in answers["next"]


def test_executables_that_are_not_built_are_named(place: Place) -> None:
    (place.root / "build/v3").chmod(0o644)
    head, answers = place.refusal("v1", "v3:persistent-ctas=3", "v9")
    assert head == "error: an executable is not there"
    assert answers["found"] == "none for: v3 v9"
    assert answers["next"].startswith("artifact build v3 v9 && ")


def test_nothing_is_clean_where_nothing_is_named(place: Place) -> None:
    head, answers = place.refusal()
    assert head == "error: no executable is named"
    assert answers["next"].endswith("sanitize.sh v1")


def test_without_a_temporary_folder_nothing_is_written(place: Place) -> None:
    place.tool("mktemp", "exit 1\n")
    place.tool("nvcc", f'echo "$*" >"{place.root}/compiled"\nexit 2\n')
    head, answers = place.refusal("v1", "v1:a=b c", TMPDIR="/nowhere")
    assert head == "error: no temporary folder can be made"
    assert answers["where"] == "/nowhere"
    assert answers["next"].endswith("sanitize.sh v1 v1:a=b\\ c")
    assert not (place.root / "compiled").exists()


def test_planted_faults_that_do_not_compile_end_it(place: Place) -> None:
    place.tool("nvcc", "exit 2\n")
    head, answers = place.refusal("v1")
    assert head == "error: the planted faults do not compile"
    assert answers["found"] == "exit code 2"


def test_without_a_gpu_the_sanitizer_is_not_blamed(place: Place) -> None:
    head, answers = place.refusal("v1", CUDA="no CUDA-capable device is detected")
    assert head == "error: a small kernel does not run on this machine"
    assert answers["found"] == "no CUDA-capable device is detected"


def test_a_sanitizer_that_does_not_work_is_told_from_one_that_is_blind(place: Place) -> None:
    place.tool("compute-sanitizer", UNSUPPORTED)
    head, answers = place.refusal("v1")
    assert head == "error: compute-sanitizer does not work on this machine"
    assert answers["found"] == "exit code 255; ========= Error: Device not supported"

    place.tool("compute-sanitizer", 'echo "========= ERROR SUMMARY: 0 errors"\n')
    done = place.start("v1")
    assert done.returncode == 1
    assert "planted, memcheck: NOT FOUND" in done.stdout.splitlines()
