"""Checks of the artifact itself: its tree, its workload, its run folders, its checkout."""

from __future__ import annotations

import json
import shutil
import subprocess

from artifact.doctor.base import ADVICE, Check, Subject, from_error
from artifact.errors import VerificationError
from artifact.model.portable import shown
from artifact.model.root import MANIFEST

_SHOWN = 3
"""How many names stand in a line before the rest is counted."""

_GIT_TIMEOUT_S = 20.0
_DEVICE = {"cpu": "processor", "gpu": "GPU"}


def tree(subject: Subject) -> Check:
    """Whether every file is as pinned, by size and BLAKE3."""
    from artifact.integrity.tree import Tree
    from artifact.integrity.verify import verify

    name, expected = "tree", "everything as manifests/lock.json pins it"
    mend = ("artifact verify", "artifact lock, if the change was intended")
    try:
        report = verify(Tree(subject.root), fast=True)
    except VerificationError as error:
        check = from_error(name, error, "bad")
        return Check(name, "bad", check.found, expected, check.mend or mend)
    if report.ok:
        return Check(name, "ok", f"{report.files} files as pinned (BLAKE3)")
    listed = some([finding.path for finding in report.findings])
    return Check(name, "bad", f"not as pinned: {listed}", expected, mend)


def workload(subject: Subject) -> Check:
    """Whether the workload has backends to run."""
    name, chosen = "workload", subject.workload
    backends = subject.manifest.backends_of(chosen.name)
    if backends:
        words = f"{chosen.name}: {len(backends)} backends, {len(chosen.shapes)} shapes"
        return Check(name, "ok", f"{words}, on the {_DEVICE[chosen.device]}")
    others = [w.name for w in subject.manifest.workloads if subject.manifest.backends_of(w.name)]
    return Check(
        name,
        "bad",
        f"{chosen.name} has no backends",
        "a workload that backends name",
        tuple(f"artifact doctor --workload {other}" for other in others[:1]),
    )


def run_folders(subject: Subject) -> Check:
    """Whether runs that did not come to their end still lie about."""
    left, unreadable = [], []
    for path in sorted(subject.results.glob("*/results.json")):
        try:
            whole = json.loads(path.read_bytes())["complete"]
        except (OSError, ValueError, KeyError, TypeError):
            unreadable.append(path.parent)
            continue
        if whole is not True:
            left.append(path.parent)
    if not left and not unreadable:
        return Check("run folders", "ok", "none is incomplete", scope=ADVICE)
    found = f"incomplete: {some([folder.name for folder in left])}" if left else ""
    if unreadable:
        listed = some([folder.name for folder in unreadable])
        found += f"{'; ' if found else ''}not readable: {listed}"
    first = (left or unreadable)[0]
    mend = (f"artifact verify {first}", f"rm -r {first}, if nothing in it is wanted")
    return Check("run folders", "warn", found, "complete runs alone", mend, ADVICE)


def checkout(subject: Subject) -> Check:
    """Whether git may change the bytes or modes of files when it writes them."""
    name = "git checkout"
    if not (subject.root / ".git").exists():
        return Check(name, "ok", "the tree is no git checkout", scope=ADVICE)
    if shutil.which("git", path=subject.environ.get("PATH")) is None:
        return Check(name, "warn", "a checkout, but git is not here to ask", scope=ADVICE)
    problems, mend = [], []
    conversion = _git(subject, "config", "--get", "core.autocrlf").lower()
    ending = _git(subject, "config", "--get", "core.eol").lower()
    attribute = _git(subject, "check-attr", "text", "--", MANIFEST)
    if not attribute.endswith(": unset"):
        if conversion not in ("", "false", "input"):
            problems.append(f"core.autocrlf={conversion}")
            mend.append("git config core.autocrlf false")
        if ending == "crlf":
            problems.append("core.eol=crlf")
            mend.append("git config core.eol lf")
    for setting, why in (("core.fileMode", "executable bits"), ("core.symlinks", "links")):
        if _git(subject, "config", "--get", "--type=bool", setting) == "false":
            problems.append(f"{setting}=false loses {why}")
            mend.append(f"git config {setting} true")
    if not problems:
        return Check(name, "ok", "git writes files as they are", scope=ADVICE)
    mend.append("then clone again: what stands here was written under the old settings")
    expected = "settings under which git writes files as they are"
    return Check(name, "warn", ", ".join(problems), expected, tuple(mend), ADVICE)


def _git(subject: Subject, *arguments: str) -> str:
    """What git prints, without its line end; nothing where it fails or does not answer."""
    command = ["git", "-C", str(subject.root), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_GIT_TIMEOUT_S,
            stdin=subprocess.DEVNULL, env=dict(subject.environ), check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def some(names: list[str]) -> str:
    """The first few of ``names``, and how many more there are."""
    listed = ", ".join(shown(name) for name in names[:_SHOWN])
    return f"{listed} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else listed
