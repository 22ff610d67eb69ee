"""Finding nvcc and the headers: the order of places, versions, and what is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from artifact.build import toolchain
from artifact.build.headers import find_headers, headers_difference
from artifact.build.toolchain import (
    find_companion,
    find_nvcc,
    front_end_version,
    nvcc_difference,
    nvcc_home,
)
from artifact.errors import EnvironmentUnmet
from artifact.model.build import HEADERS, TOOLKIT
from artifact.model.load import parse_model, parse_toml
from artifact.model.manifest import Manifest

NVCC = """#!/bin/sh
# Answers as nvcc does; FRONT is the version of the front end that it "starts".
case "$*" in
  --version) echo 'Cuda compilation tools, release 13.0, V{version}' ;;
  *--dryrun*) echo '#$ _HERE_={here}' >&2 ;;
  *--ptx*)
    while [ "$1" != -o ]; do shift; done
    printf '//\\n// Cuda compilation tools, release x, V{front}\\n' > "$2"
    exit {status} ;;
esac
"""


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def nvcc(path: Path, version: str = "13.0.88", front: str = "", status: int = 0) -> Path:
    here = path.parent
    text = NVCC.format(version=version, front=front or version, here=here, status=status)
    return program(path, text)


@pytest.fixture(autouse=True)
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter that runs the tests may have the packages; these tests give their own."""

    def nothing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(toolchain.metadata, "distribution", nothing)


def install(monkeypatch: pytest.MonkeyPatch, site: Path, name: str, files: list[str]) -> None:
    """Let the distribution ``name`` be installed in ``site`` with ``files``."""
    info = site / f"{name.replace('-', '_')}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    found = metadata.Distribution.at(info)
    before = toolchain.metadata.distribution
    monkeypatch.setattr(
        toolchain.metadata, "distribution", lambda n: found if n == name else before(n)
    )


def test_the_order_of_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = nvcc(tmp_path / "named/nvcc", "1.0.1")
    nvcc(tmp_path / "home/bin/nvcc", "1.0.2")
    nvcc(tmp_path / "path/nvcc", "1.0.3")
    nvcc(tmp_path / "site/nvidia/cu13/bin/nvcc", "1.0.4")
    install(monkeypatch, tmp_path / "site", "nvidia-cuda-nvcc", ["nvidia/cu13/bin/nvcc"])
    places = {"CUDA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    found = []
    for environ in (places, {"PATH": places["PATH"]}, {"PATH": "/nowhere"}):
        tool = find_nvcc(None, environ)
        found.append((tool.origin, tool.version))
    assert found == [("CUDA_HOME", "1.0.2"), ("PATH", "1.0.3"), ("PyPI", "1.0.4")]
    tool = find_nvcc(named, places)
    assert (tool.origin, tool.version, tool.path) == ("--nvcc", "1.0.1", named)


def test_a_variable_that_leads_nowhere_is_said(tmp_path: Path) -> None:
    nvcc(tmp_path / "path/nvcc")
    tool = find_nvcc(None, {"CUDA_HOME": "/nowhere", "PATH": str(tmp_path / "path")})
    assert tool.origin == "PATH"
    assert tool.passed_over == ("CUDA_HOME=/nowhere has no bin/nvcc",)


def test_what_is_named_is_never_passed_over(tmp_path: Path) -> None:
    nvcc(tmp_path / "path/nvcc")
    text = tmp_path / "text"
    text.write_text("")
    for named in (tmp_path, text, tmp_path / "missing"):
        with pytest.raises(EnvironmentUnmet) as caught:
            find_nvcc(named, {"PATH": str(tmp_path / "path")})
        assert str(named) in str(caught.value.found)
    headers_(tmp_path / "good/include")
    with pytest.raises(EnvironmentUnmet, match="no CUTLASS headers"):
        find_headers(tmp_path, {"CUTE_HOME": str(tmp_path / "good")})


def test_nothing_anywhere_says_where_it_was_looked_for() -> None:
    with pytest.raises(EnvironmentUnmet) as caught:
        find_nvcc(None, {"CUDA_HOME": "/nowhere", "PATH": "/nowhere"})
    assert caught.value.details == (
        "CUDA_HOME=/nowhere has no bin/nvcc",
        "PATH has no nvcc",
        "nvidia-cuda-nvcc is not installed here",
    )
    with pytest.raises(EnvironmentUnmet) as caught:
        find_headers(None, {"CUTE_HOME": "/nowhere"})
    assert caught.value.details[0] == "CUTE_HOME=/nowhere does not hold them"


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("#!/bin/sh\necho nothing of use\n", "nvcc does not say its version"),
        ("#!/bin/sh\necho oops >&2; exit 3\n", "a program of the toolkit fails"),
        ("no interpreter line", "a program of the toolkit cannot be asked"),
    ],
)
def test_an_nvcc_that_does_not_answer(tmp_path: Path, script: str, what: str) -> None:
    path = program(tmp_path / "nvcc", script)
    with pytest.raises(EnvironmentUnmet) as caught:
        find_nvcc(path, {})
    assert caught.value.what == what
    assert caught.value.where == str(path)


def test_flags_of_the_callers_shell_do_not_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-v")
    path = program(tmp_path / "nvcc", '#!/bin/sh\necho "V1.2.3$NVCC_APPEND_FLAGS"\n')
    assert find_nvcc(path, {}).version == "1.2.3"
    assert toolchain.ask([path]) == "V1.2.3\n"


def test_the_front_end_says_its_own_version(tmp_path: Path) -> None:
    assert front_end_version(find_nvcc(nvcc(tmp_path / "a/nvcc"), {})) == "13.0.88"
    mixed = find_nvcc(nvcc(tmp_path / "b/nvcc", front="13.5.37"), {})
    assert front_end_version(mixed) == "13.5.37"
    # The assembler refuses code of a newer front end: which one it was is the news.
    refused = find_nvcc(nvcc(tmp_path / "c/nvcc", front="13.5.37", status=255), {})
    assert front_end_version(refused) == "13.5.37"
    broken = find_nvcc(nvcc(tmp_path / "d/nvcc", status=1), {})
    with pytest.raises(EnvironmentUnmet, match="a program of the toolkit fails"):
        front_end_version(broken)


def test_code_that_does_not_name_its_compiler(tmp_path: Path) -> None:
    text = NVCC.format(version="13.0.88", front="?", here=tmp_path, status=0)
    tool = find_nvcc(program(tmp_path / "nvcc", text), {})
    with pytest.raises(EnvironmentUnmet, match="does not name its compiler"):
        front_end_version(tool)


def test_companions_come_from_the_toolkit_that_nvcc_works_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A script on PATH that starts the real one elsewhere, as distributions install it.
    real = nvcc(tmp_path / "toolkit/bin/nvcc")
    started = program(tmp_path / "path/nvcc", f'#!/bin/sh\nexec {real} "$@"\n')
    program(tmp_path / "toolkit/bin/cuobjdump")
    program(tmp_path / "path/cuobjdump")
    program(tmp_path / "path/nvdisasm")
    environ = {"PATH": str(tmp_path / "path")}
    tool = find_nvcc(None, environ)
    assert tool.path == started
    assert nvcc_home(tool) == real.parent
    cuobjdump = find_companion("cuobjdump", tool, environ)
    assert cuobjdump is not None
    assert (cuobjdump.path, cuobjdump.origin) == (real.parent / "cuobjdump", "beside nvcc")
    nvdisasm = find_companion("nvdisasm", tool, environ)
    assert nvdisasm is not None and nvdisasm.origin == "PATH"
    assert find_companion("cuobjdump", None, {"PATH": "/nowhere"}) is None


def test_the_newest_profiler_of_those_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("2024.3.2", "2025.10.0", "2025.9.1"):
        program(tmp_path / version / "ncu")
    monkeypatch.setattr(toolchain, "_NSIGHT", tmp_path)
    tool = find_companion("ncu", None, {"PATH": "/nowhere"})
    assert tool is not None and tool.path == tmp_path / "2025.10.0/ncu"


def headers_(include: Path, version: str = "4.2.1") -> Path:
    major, minor, patch = version.split(".")
    (include / "cutlass").mkdir(parents=True)
    (include / "cute").mkdir()
    (include / "cute/tensor.hpp").write_text("")
    (include / "cutlass/version.h").write_text(
        f"#define CUTLASS_MAJOR {major}\n#define  CUTLASS_MINOR {minor}\n"
        f"#define CUTLASS_PATCH {patch} \n#define CUTLASS_BUILD 9\n"
    )
    return include


def test_headers_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    headers_(tmp_path / "home/include", "1.0.0")
    headers_(tmp_path / "site/lib/source/include", "2.0.0")
    install(
        monkeypatch, tmp_path / "site", "nvidia-cutlass", ["lib/source/include/cutlass/version.h"]
    )
    there = find_headers(None, {"CUTE_HOME": str(tmp_path / "home")})
    assert (there.origin, there.version, there.revision) == ("CUTE_HOME", "1.0.0", None)
    there = find_headers(None, {})
    assert (there.origin, there.version) == ("PyPI", "2.0.0")
    # The directory that holds them may be named itself.
    there = find_headers(tmp_path / "home/include", {})
    assert (there.origin, there.include) == ("--cutlass", tmp_path / "home/include")


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_headers_in_a_checkout_name_its_commit(tmp_path: Path) -> None:
    include = headers_(tmp_path / "cutlass/include")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(include.parent)]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "m"]):
        subprocess.run([*git, *arguments], check=True)
    there = find_headers(include.parent, {})
    assert there.revision is not None and len(there.revision) == 40
    assert not there.modified
    manifest = manifest_with(f'revision = "{there.revision[:12]}"')
    assert headers_difference(there, manifest) is None
    (include / "cute/tensor.hpp").write_text("changed")
    changed = find_headers(include.parent, {})
    assert headers_difference(changed, manifest) == "files of the headers' checkout were changed"
    other = manifest_with('revision = "0123456789abcdef"')
    assert "pinned is 0123456789ab" in str(headers_difference(there, other))
    # A copy within somebody else's checkout is of no commit of its own.
    copied = headers_(include.parent / "third_party/x/include")
    assert find_headers(copied, {}).revision is None


def manifest_with(dependency: str) -> Manifest:
    text = (Path(__file__).parents[1] / "assets/workers/artifact.toml").read_text()
    for name in (TOOLKIT, HEADERS):
        text += f'\n[[dependencies]]\nname = "{name}"\nrole = "a test"\n{dependency}\n'
    return parse_model(Manifest, parse_toml(text.encode(), "artifact.toml"), "artifact.toml")


def test_what_differs_from_the_pins(tmp_path: Path) -> None:
    tool = find_nvcc(nvcc(tmp_path / "nvcc"), {})
    there = find_headers(headers_(tmp_path / "include"), {})
    assert nvcc_difference(tool, manifest_with('version = "13.0.88"')) is None
    assert headers_difference(there, manifest_with('version = "4.2.1"')) is None
    other = manifest_with('version = "13.1.0"')
    assert nvcc_difference(tool, other) == "nvcc is 13.0.88, the manifest pins 13.1.0"
    assert headers_difference(there, other) == "the headers are 4.2.1, pinned are 13.1.0"
    unknown = manifest_with('revision = "0123456789abcdef"')
    assert nvcc_difference(tool, unknown) is None
    assert headers_difference(there, unknown) == (
        "the headers are in no git checkout, pinned is the commit 0123456789ab"
    )


def test_a_pinned_commit_is_a_checkouts_and_a_pinned_version_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The artifact pins both: the commit that was published, and the wheel."""
    both = manifest_with('version = "4.2.1"\nrevision = "0123456789abcdef"')
    copied = find_headers(headers_(tmp_path / "include"), {})
    assert "in no git checkout" in str(headers_difference(copied, both))
    package = replace(copied, origin="PyPI")
    assert headers_difference(package, both) is None
    assert headers_difference(replace(package, version="4.3.0"), both) == (
        "the headers are 4.3.0, pinned are 4.2.1"
    )
    checkout = replace(copied, revision="0123456789abcdef" + "0" * 24, version="4.9.9")
    assert headers_difference(checkout, both) is None
    assert headers_difference(replace(checkout, modified=True), both) is not None


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")
def test_the_real_one() -> None:
    tool = find_nvcc(None, {"PATH": os.environ["PATH"]})
    assert tool.origin == "PATH"
    assert (nvcc_home(tool) / "ptxas").is_file()
    assert front_end_version(tool).split(".")[:2] == str(tool.version).split(".")[:2]
