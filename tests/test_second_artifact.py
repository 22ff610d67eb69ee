"""A second artifact through the same commands: nothing in the package knows the first one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROWSUM = ROOT / "tests" / "assets" / "rowsum"


def artifact(*args: str | Path, cwd: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    """The real command line, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "artifact", *map(str, args)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def answer(*args: str | Path, cwd: Path, status: int = 0) -> dict[str, Any]:
    """What a command prints with ``--json``."""
    document = json.loads(artifact(*args, "--json", cwd=cwd, status=status).stdout)
    assert isinstance(document, dict)
    return document


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the second artifact, far from the first one's root."""
    return Path(
        shutil.copytree(
            ROWSUM, tmp_path / "elsewhere", ignore=shutil.ignore_patterns("__pycache__")
        )
    )


def test_the_asset_is_as_pinned(tree: Path) -> None:
    verified = answer("verify", cwd=tree)
    assert verified["ok"] and verified["artifact"] == "rowsum-demo"
    assert verified["findings"] == [] and verified["outside"] == []
    # From within the other artifact's tree, its root has to be named.
    named = answer("verify", "--root", tree, cwd=ROOT)
    assert named["content_id"] == verified["content_id"]


def test_it_runs_is_reported_and_verified(tree: Path) -> None:
    artifact("run", cwd=tree)
    (run,) = (tree / "runs").iterdir()
    assert re.fullmatch(r"\d{8}T\d{6}Z-cpu-fp32", run.name)
    results = json.loads((run / "results.json").read_text())
    assert results["complete"] and results["state"]["phase"] == "done"
    assert results["artifact"]["name"] == "rowsum-demo"
    assert (
        results["artifact"]["content_id"] == answer("verify", cwd=tree)["content_id"].split(":")[-1]
    )
    assert [b["name"] for b in results["backends"]] == ["pairwise", "sequential"]
    checks = {(c["backend"], c["shape"]): c for c in results["checks"]}
    assert len(checks) == 4
    for check in checks.values():
        assert check["published"]["passed"] and check["strict"]["passed"]
        assert len(check["controls"]) == 6 and all(c["rejected"] for c in check["controls"])
        assert list(check["inputs"]) == ["x"]
    # Three rounds of two shapes; the anchor first and last.
    assert len(results["samples"]) == 2 * 3 * 3
    assert results["metric"]["name"] == "Gadd/s"
    summary = (run / "summary.csv").read_text()
    assert "1000 x 1024" in summary and "sequential" in summary
    assert "Gadd/s" in (run / "summary.md").read_text()

    assert answer("verify", run, cwd=tree)["ok"]
    page = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    printed = artifact("report", run, cwd=tree).stdout
    assert "Sum from left to right" in printed
    assert (run / "report.html").read_bytes() == page
    # A run folder that is not in the lock is no part of the artifact.
    assert answer("verify", cwd=tree)["outside"] == [f"runs/{run.name}/"]

    summary_file = run / "summary.csv"
    summary_file.write_text(summary.replace("sequential", "sequentiaI", 1))
    spoilt = answer("verify", run, cwd=tree, status=1)
    assert any("summary.csv" in finding["path"] for finding in spoilt["findings"])


def test_tree_and_both_archives_have_one_content_id(tree: Path, tmp_path: Path) -> None:
    identity = answer("verify", cwd=tree)["content_id"]
    for form in ("tar.gz", "zip"):
        archive = tmp_path / f"packed.{form}"
        artifact("pack", "--format", form, "--output", archive, cwd=tree)
        assert answer("verify", archive, cwd=tmp_path)["content_id"] == identity
        target = tmp_path / f"from-{form.replace('.', '-')}"
        artifact("unpack", archive, "--into", target, cwd=tmp_path)
        unpacked = target / "rowsum-demo"
        verified = answer("verify", "--expect-content-id", identity, cwd=unpacked)
        assert verified["ok"] and verified["content_id"] == identity
    # What was unpacked runs like what was packed.
    artifact("run", "--warmup", "0", "--repeat", "1", "--rounds", "1", cwd=unpacked)
    (run,) = (unpacked / "runs").iterdir()
    assert answer("verify", run, cwd=unpacked)["ok"]


def pinned_files() -> list[str]:
    lock = json.loads((ROWSUM / "manifests" / "lock.json").read_text())
    return [pin["path"] for pin in lock["files"]]


@pytest.fixture(scope="module")
def identity() -> str:
    """The content id of the asset."""
    return str(answer("verify", "--root", ROWSUM, cwd=ROOT)["content_id"])


@pytest.mark.parametrize("path", [*pinned_files(), "manifests/lock.json"])
def test_one_changed_byte_is_named(tree: Path, identity: str, path: str) -> None:
    file = tree / path
    data = bytearray(file.read_bytes())
    # In the lock: a digit of a digest, so that the document stays well formed.
    place = data.index(b'"blake3": "') + 11 if path.endswith("lock.json") else len(data) // 2
    data[place] ^= 0x01
    file.write_bytes(data)
    done = artifact("verify", "--expect-content-id", identity, cwd=tree, status=1)
    assert path in done.stdout + done.stderr


def test_an_edited_source_makes_its_generated_file_stale(tree: Path) -> None:
    source = tree / "kernels" / "rowsum.src"
    source.write_text(source.read_text().replace("y[n] =", "y[n] +="))
    found = {(f["kind"], f["path"]) for f in answer("verify", cwd=tree, status=1)["findings"]}
    assert ("changed", "kernels/rowsum.src") in found
    assert ("chain", "generated/rowsum.c") in found
    refused = artifact("lock", cwd=tree, status=1)
    assert "generated/rowsum.c" in refused.stderr and "stale" in refused.stderr
    # Nothing that was changed is ever executed.
    artifact("run", cwd=tree, status=1)
    (run,) = (tree / "runs").iterdir()
    results = json.loads((run / "results.json").read_text())
    assert not results["complete"] and results["state"]["phase"] == "verify"
    assert results["state"]["error"]["exit_code"] == 1
    assert results["samples"] == results["checks"] == results["witnesses"] == []


def test_an_intended_change_is_pinned_by_lock(tree: Path) -> None:
    before = answer("verify", cwd=tree)["content_id"]
    readme = tree / "README.md"
    readme.write_text(readme.read_text() + "\nOne more line.\n")
    artifact("verify", cwd=tree, status=1)
    locked = answer("lock", cwd=tree)
    assert any("README.md" in change for change in locked["changes"])
    assert answer("verify", cwd=tree)["content_id"] == locked["content_id"] != before


def test_a_wrong_backend_does_not_get_to_the_timing(tree: Path) -> None:
    """The gates are this artifact's own: a sum that skips a column fails them."""
    worker = tree / "workers" / "rowsum.py"
    text = worker.read_text()
    wrong = text.replace("return x.sum(axis=1)", "return x[:, 1:].sum(axis=1)")
    assert wrong != text
    worker.write_text(wrong)
    artifact("lock", cwd=tree)
    done = artifact("run", cwd=tree, status=4)
    assert "pairwise" in done.stderr
    (run,) = (tree / "runs").iterdir()
    results = json.loads((run / "results.json").read_text())
    assert not results["complete"] and results["samples"] == []


# ---------------------------------------------------------------------- words of the domain

#: What this repository's own artifact is about. None of it may stand in the package. A bare
#: "head" is also the beginning of a file or the top of a table, so the field's compounds stand
#: here instead.
DOMAIN = re.compile(
    r"\b(attention|softmax|causal\w*|flash\w*|fa[234]|prefill|seqlen|bshd|bhsd|mha\w*"
    r"|(num|query|kv|key|attention)[-_ ]heads?|head[-_ ]?(dim|size)\w*|kv[-_ ]tiles?"
    r"|tilelang\w*|croqtile|cpu-(direct|forward|reverse|demo))\b",
    re.IGNORECASE,
)

#: (file, text of the line) -> why it may stand there.
ALLOWED = {
    (
        "artifact/bench/childenv.py",
        "``MHA_SEQ``",
    ): "a variable of people's shells that must never reach a worker, as an example",
    (
        "artifact/bench/childenv.py",
        "TILELANG_CACHE_DIR",
    ): "a compiler that workers may use reads it; each run gets a cache of its own",
}


def package_lines() -> Iterator[tuple[str, int, str]]:
    """(file, number, line) of everything in the package."""
    for file in sorted((ROOT / "artifact").rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            text = file.read_text(encoding="utf-8", errors="replace")
            for number, line in enumerate(text.splitlines(), 1):
                yield file.relative_to(ROOT).as_posix(), number, line


def test_the_package_knows_no_word_of_the_domain() -> None:
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, number, line in package_lines()
        if DOMAIN.search(line)
        and not any(name == where and text in line for where, text in ALLOWED)
    ]
    assert not found, "\n".join(found)


def test_every_allowed_word_is_still_there() -> None:
    for where, text in ALLOWED:
        assert text in (ROOT / where).read_text(encoding="utf-8"), f"{where} lacks {text!r}"


@pytest.mark.parametrize(
    "word",
    ["causal masking", "FlashAttention", "fa3", "kv tile", "head_dim", "num-heads", "cpu-demo"],
)
def test_words_of_the_domain_are_seen(word: str) -> None:
    assert DOMAIN.search(f"x = {word!r}")
