"""Shared memory and registers of a block."""

from __future__ import annotations

from collections.abc import Callable

import pytest

KIB = 1024


def buffers(bytes_: int, events: int = 0) -> str:
    """A program with so many bytes of buffers, and so many event slots that are mbarriers."""
    event = f"shared event e[{events}];\n" if events else ""
    return (
        f"__co__ void f(global f32 [N] x) {{\n  parallel b by N : block {{\n"
        f"shared u8 [{bytes_ // KIB}, 1024] data;\n{event}"
        "parallel p by 2 : group-4 {\n}\n}\n}\n"
    )


@pytest.mark.parametrize(
    ("bytes_", "events", "fits"),
    [
        (226 * KIB, 0, True),
        (227 * KIB, 0, False),
        # 1024 bytes of alignment and 8 a slot count too.
        (225 * KIB, 128, True),
        (226 * KIB, 1, False),
    ],
)
def test_the_limit_counts_alignment_and_events(
    whole: Callable, bytes_: int, events: int, fits: bool
) -> None:
    analysed = whole(buffers(bytes_, events))
    assert analysed.codes == ([] if fits else ["shared-memory"])
    if not fits:
        assert str(bytes_ + KIB + 8 * events) in analysed.said("shared-memory").message


def split(*limits: tuple[str, int]) -> str:
    """Calls by roles."""
    call = "call croq::cuda::setreg_{}({});"
    calls = [(role, call.format("dec" if n <= 168 else "inc", n)) for role, n in limits]
    return "\n".join(f"inthreads (p {role}) {{\n  {text}\n}}" for role, text in calls)


@pytest.mark.parametrize(
    ("limits", "codes"),
    [
        ((("== 0", 40), ("> 0", 232)), []),
        ((("== 0", 24), ("> 0", 240)), []),
        ((("== 0", 40), ("> 0", 240)), ["register-budget"]),
        ((("== 0", 24), ("== 1", 240), ("== 2", 248)), ["register-budget"]),
        ((("> 0", 232),), ["register-budget"]),
        ((("== 0", 24),), []),
    ],
)
def test_the_budget_of_three_warpgroups(
    threads: Callable, limits: tuple[tuple[str, int], ...], codes: list[str]
) -> None:
    assert threads(split(*limits)).codes == codes


@pytest.mark.parametrize("number", ["20", "36 + 1", "264", "n"])
def test_counts(threads: Callable, number: str) -> None:
    analysed = threads(f"inthreads (p == 0) {{\n  call croq::cuda::setreg_dec({number});\n}}")
    assert analysed.codes == ["register-count"]


def test_whole_warpgroups_change_their_registers(threads: Callable) -> None:
    call = "call croq::cuda::setreg_dec(40);"
    assert threads(f"inthreads (p == 0 && t < 64) {{\n{call}\n}}").codes == ["register-threads"]
    assert threads(f"inthreads (p == 0) {{\nif (t < 5) {{\n{call}\n}}\n}}").codes == [
        "register-threads"
    ]
