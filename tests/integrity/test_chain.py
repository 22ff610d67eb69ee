from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifact.integrity.chain import (
    REMEDY,
    STAMP_BYTES,
    Stamp,
    chain_findings,
    read_stamp,
    shared_generated,
)
from artifact.integrity.documents import KernelFiles
from artifact.integrity.pin import Finding, Link

A, B, C = "a" * 64, "b" * 64, "c" * 64

STAMP = f"""\
// artifact-source: kernels/k.co blake3:{A}
// artifact-compiler: choreo-py 0.1.0
// artifact-flags: -t cute -arch=sm_90a
"""


@pytest.mark.parametrize("comment", ["// ", "# ", "; ", " * ", "-- ", "/* "])
def test_a_stamp_in_any_comment_syntax(comment: str) -> None:
    head = STAMP.replace("// ", comment).encode()
    wanted = Stamp("kernels/k.co", A, "choreo-py 0.1.0", ("-t", "cute", "-arch=sm_90a"))
    assert read_stamp(head) == wanted
    assert read_stamp(head.replace(b"\n", b"\r\n")) == wanted
    assert read_stamp(b"\xff\xfe not text\n" + head) == wanted


def test_a_source_may_have_spaces_and_flags_may_be_quoted_or_none() -> None:
    head = STAMP.replace("k.co", "k 1.co").replace("-t cute -arch=sm_90a", "'-D x=1'")
    assert read_stamp(head.encode()).source == "kernels/k 1.co"
    assert read_stamp(head.encode()).flags == ("-D x=1",)
    assert read_stamp(STAMP.replace("-t cute -arch=sm_90a", "").encode()).flags == ()


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("", "artifact-source: is missing"),
        (STAMP.replace("artifact-flags", "flags"), "artifact-flags: is missing"),
        (STAMP + STAMP, "stands twice"),
        ("x" * STAMP_BYTES + STAMP, "is missing in the first 4096 bytes"),
        (STAMP.replace(A, A[:-1]), "is not <path> blake3:"),
        (STAMP.replace(A, A.upper()), "is not <path> blake3:"),
        (STAMP.replace("blake3:", "sha256:"), "is not <path> blake3:"),
        (STAMP.replace("kernels/k.co ", ""), "is not <path> blake3:"),
        (STAMP.replace("choreo-py 0.1.0", ""), "artifact-compiler: is empty"),
        (STAMP.replace("-t cute", "'-t cute"), "artifact-flags:"),
    ],
)
def test_a_stamp_that_cannot_be_read(head: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_stamp(head.encode())


@given(st.binary(max_size=300))
def test_any_bytes_are_a_stamp_or_a_value_error(head: bytes) -> None:
    with contextlib.suppress(ValueError):
        read_stamp(head)


KERNEL = KernelFiles("k", "kernels/k.co", "generated/k.cu")


def link(**change: Any) -> Link:
    fields: dict[str, Any] = {
        "kernel": "k",
        "source": "kernels/k.co",
        "source_blake3": A,
        "generated": "generated/k.cu",
        "generated_blake3": B,
        "compiler": "choreo-py 0.1.0",
        "flags": ("-t", "cute", "-arch=sm_90a"),
    }
    return Link(**{**fields, **change})


def findings(
    kernels: list[KernelFiles] | None = None,
    links: list[Link] | None = None,
    digests: dict[str, str] | None = None,
    head: str = STAMP,
) -> list[Finding]:
    found = list(
        chain_findings(
            [KERNEL] if kernels is None else kernels,
            [link()] if links is None else links,
            {"kernels/k.co": A, "generated/k.cu": B} if digests is None else digests,
            {"generated/k.cu": head.encode()},
            {"kernels/k.co", "generated/k.cu", "runtime/pinned.h"},
        )
    )
    assert all(f.kind == "chain" for f in found)
    return found


def test_a_chain_that_holds() -> None:
    assert findings() == []
    assert findings(links=[link(headers=("runtime/pinned.h",))]) == []


def test_an_edited_source_makes_the_generated_file_stale() -> None:
    found = findings(digests={"kernels/k.co": C, "generated/k.cu": B})
    assert [(f.path, f.reason) for f in found] == [
        ("kernels/k.co", REMEDY),
        ("generated/k.cu", REMEDY),
    ]
    assert found[1].message == "stale: it was made of another kernels/k.co"
    assert (found[1].expected, found[1].found) == (f"blake3:{C}", f"blake3:{A}")


@pytest.mark.parametrize(
    ("case", "path", "words"),
    [
        ({"links": []}, "generated/k.cu", "no link for the kernel k"),
        ({"kernels": []}, "generated/k.cu", "a kernel that the manifest does not name: k"),
        ({"links": [link(), link()]}, "k", "2 links for one kernel"),
        ({"links": [link(source="kernels/x.co")]}, "generated/k.cu", "links other files"),
        ({"links": [link(generated_blake3=C)]}, "generated/k.cu", "pins another generated/k.cu"),
        ({"links": [link(compiler="choreo-py 0.2")]}, "generated/k.cu", "other compiler"),
        ({"links": [link(flags=("-t", "cute"))]}, "generated/k.cu", "other flags"),
        ({"links": [link(headers=("runtime/a.h",))]}, "runtime/a.h", "the lock does not pin it"),
        ({"head": "no stamp"}, "generated/k.cu", "its stamp cannot be read"),
        ({"head": STAMP.replace("k.co", "j.co")}, "generated/k.cu", "names another source"),
    ],
)
def test_every_link_that_does_not_hold(case: dict[str, Any], path: str, words: str) -> None:
    (found,) = findings(**case)
    assert found.path == path and words in found.message


def test_two_kernels_must_not_share_a_generated_file() -> None:
    other = KernelFiles("j", "kernels/j.co", "generated/k.cu")
    (found,) = shared_generated([KERNEL, other])
    assert found.path == "generated/k.cu" and "k, j" in found.message


def test_files_that_are_not_there_are_left_to_the_inventory() -> None:
    assert list(chain_findings([KERNEL], [link()], {}, {}, ())) == []
