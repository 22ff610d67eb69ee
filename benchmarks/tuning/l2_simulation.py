"""How often K and V come from DRAM, by the order in which CTAs work: a cache on an envelope.

    python benchmarks/tuning/l2_simulation.py [--ctas 132] [--cache-mb 10]

Every CTA goes through its list of query tiles and touches a K and a V tile (64 KiB together) a
step; the cache drops what was used least recently. Prints misses as a multiple of the fewest
possible (every tile once) for lists made of pairs of heads as units, and for lists made task by
task (what runtime/schedule.h does). The cache's size is a guess to be varied.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections import OrderedDict

Task = tuple[int, int]
"""Head (batch x heads) and query tile."""

HEADS, TILE_KB, TASK_STEPS = 128, 64, 2.0


def lists(tiles: int, ctas: int, unit: int) -> list[list[Task]]:
    """Longest first within two heads, to the least loaded CTA; ``unit`` heads go together."""
    made: list[list[Task]] = [[] for _ in range(ctas)]
    load = [(0, cta) for cta in range(ctas)]
    for first in range(0, HEADS, 2):
        for tile in range(tiles - 1, -1, -1):
            for head in range(first, first + 2, unit):
                cost, cta = heapq.heappop(load)
                made[cta] += [(head + i, tile) for i in range(unit)]
                heapq.heappush(load, (cost + unit * (2 * (tile + 1) + 4), cta))
    return [sorted(tasks, key=lambda task: (task[0], -task[1])) for tasks in made]


def misses(work: list[list[Task]], cache_tiles: int) -> int:
    """Tiles that are not in the cache when they are touched."""
    noise = random.Random(1)
    cache: OrderedDict[Task, None] = OrderedDict()
    missed = 0
    agenda = [(noise.random(), cta, 0, 0) for cta in range(len(work))]
    heapq.heapify(agenda)
    while agenda:
        now, cta, index, step = heapq.heappop(agenda)
        if index == len(work[cta]):
            continue
        head, tile = work[cta][index]
        key = (head, tile - step)
        if key in cache:
            cache.move_to_end(key)
        else:
            missed += 1
            cache[key] = None
            if len(cache) > cache_tiles:
                cache.popitem(last=False)
        now += 1
        step += 1
        if step > tile:
            index, step, now = index + 1, 0, now + TASK_STEPS
        heapq.heappush(agenda, (now, cta, index, step))
    return missed


def main() -> None:
    """Print one line a shape."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ctas", type=int, default=132)
    parser.add_argument("--cache-mb", type=float, default=10)
    options = parser.parse_args()
    cache = int(options.cache_mb * 1024 / TILE_KB)
    for seq in (4096, 8192, 16384):
        tiles = seq // 128
        fewest = HEADS * tiles
        by_unit = {
            unit: misses(lists(tiles, options.ctas, unit), cache) / fewest for unit in (2, 1)
        }
        print(f"S={seq}: two heads as a unit {by_unit[2]:.2f}, task by task {by_unit[1]:.2f}")


if __name__ == "__main__":
    main()
