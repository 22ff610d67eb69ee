"""runtime/schedule.h: the task lists of a persistent kernel."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

Task = tuple[int, int, int]
Lists = list[tuple[int, list[Task]]]


@pytest.fixture(scope="module")
def program(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    source = ROOT / "tests/assets/native/schedule.cpp"
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
    command = ["g++", *flags, "-I", ROOT / "runtime", source, "-o"]
    return once("schedule", lambda to: subprocess.run([*command, to / "made"], check=True)) / "made"


def schedule(program: Path, *numbers: int, fixed: str | None = None) -> Lists:
    environment = {k: v for k, v in os.environ.items() if k != "CHOREO_SCHED_FIXED_COST"}
    if fixed is not None:
        environment["CHOREO_SCHED_FIXED_COST"] = fixed
    done = subprocess.run(
        [program, *map(str, numbers)], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode:
        raise ValueError(done.stderr.strip())
    lists = []
    for line in done.stdout.splitlines():
        cost, _, rest = line.partition(":")
        tasks = [tuple(map(int, word.split("/"))) for word in rest.split()]
        lists.append((int(cost), [(t[0], t[1], t[2]) for t in tasks]))
    return lists


def cost(task: Task, fixed: int = 4) -> int:
    return 2 * (task[0] + 1) + fixed


@pytest.mark.parametrize("shape", [(4, 32, 32), (4, 32, 64), (4, 32, 128), (1, 3, 5), (3, 1, 2)])
@pytest.mark.parametrize("ctas", [1, 7, 114, 132])
def test_every_tile_is_in_one_list(program: Path, shape: tuple[int, int, int], ctas: int) -> None:
    batch, heads, tiles = shape
    lists = schedule(program, *shape, ctas)
    assert len(lists) == ctas
    tasks = [task for _, tasks in lists for task in tasks]
    every = {(t, h, b) for t in range(tiles) for h in range(heads) for b in range(batch)}
    assert len(tasks) == len(every)
    assert set(tasks) == every
    for estimated, tasks in lists:
        assert estimated == sum(map(cost, tasks))
        assert tasks == sorted(tasks, key=lambda t: (t[2], t[1], -t[0])), "by head, long ones first"


@pytest.mark.parametrize("tiles", [32, 64, 128])
@pytest.mark.parametrize("ctas", [114, 132])
def test_the_published_shapes_are_balanced(program: Path, tiles: int, ctas: int) -> None:
    costs = [estimated for estimated, _ in schedule(program, 4, 32, tiles, ctas)]
    assert max(costs) * ctas / sum(costs) < 1.005


def test_neighbours_in_time_share_few_heads(program: Path) -> None:
    """At every moment (by estimated cost) the CTAs are within a few heads of each other."""
    lists = schedule(program, 4, 32, 64, 132)
    total = max(estimated for estimated, _ in lists)
    counts = []
    for moment in range(0, total, total // 50):
        active = set()
        for _, tasks in lists:
            spent = 0
            for task in tasks:
                spent += cost(task)
                if spent > moment:
                    active.add((task[2], task[1]))
                    break
        counts.append(len(active))
    # 132 CTAs hold two heads of 64 tiles at once; at a change of pair it is a few more.
    assert sorted(counts)[len(counts) // 2] <= 4
    assert max(counts) <= 6


def test_the_fixed_cost_of_the_environment(program: Path) -> None:
    assert schedule(program, 1, 2, 8, 3) == schedule(program, 1, 2, 8, 3, 4)
    assert schedule(program, 1, 2, 8, 3, fixed="9") == schedule(program, 1, 2, 8, 3, 9)
    for wrong in ("", "many", "-1", "3x", "1000001"):
        with pytest.raises(ValueError, match="CHOREO_SCHED_FIXED_COST: expected 0 to 1000000"):
            schedule(program, 1, 2, 8, 3, fixed=wrong)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((1, 1, 257, 4), "257 query tiles do not fit the 8 bits of a task: at most 256"),
        ((1, 65, 1, 4), "65 heads do not fit the 6 bits of a task: at most 64"),
        ((262145, 1, 1, 4), "262145 batch entries do not fit the 18 bits of a task"),
        ((1, 1, 1, 0), "a schedule needs CTAs"),
        ((1, 0, 1, 4), "a schedule needs CTAs"),
    ],
)
def test_what_does_not_fit_a_task(
    program: Path, numbers: tuple[int, int, int, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        schedule(program, *numbers)


def test_the_widest_fields(program: Path) -> None:
    lists = schedule(program, 2, 64, 256, 5)
    assert (255, 63, 1) in {task for _, tasks in lists for task in tasks}
