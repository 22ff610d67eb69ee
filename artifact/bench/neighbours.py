"""Who computes on the GPU beside this run's own workers.

The driver numbers processes as the machine's first PID namespace does. In a container a run
knows its workers by other numbers, and some sandboxes list no process at all. What could be
told apart, and how, is said in the results; it is never taken for more than it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from artifact.bench.card import command_name, descendants, first_namespace
from artifact.errors import EnvironmentUnmet

BY_NUMBER = "told apart by process id"
BY_COUNT = (
    "process ids are of another namespace: those that were there once every worker was ready, "
    "no more than the workers, count as the workers"
)
NOT_LISTED = "NVML lists no process here, not even the workers: others could not be seen"
NOT_SEEN = "no worker was seen on the GPU yet"


class Neighbours:
    """Tells the workers of this run from other processes on the GPU.

    Args:
        same_numbers: Whether the driver's process ids are those that this process sees.
        family: All processes below some; another one in tests.
    """

    def __init__(
        self,
        same_numbers: bool | None = None,
        family: Callable[[frozenset[int]], frozenset[int]] = descendants,
    ) -> None:
        self._same_numbers = first_namespace() if same_numbers is None else same_numbers
        self._family = family
        self._workers: frozenset[int] = frozenset()
        self._known: frozenset[int] = frozenset()
        self._adopted: frozenset[int] | None = None
        self.told = NOT_SEEN
        """How processes were told apart so far."""

    def workers(self, numbers: Sequence[int]) -> None:
        """The processes of ``numbers``, and what they start, are this run's."""
        self._workers = self._known = frozenset(numbers)

    def require_none(self, running: frozenset[int] | None, index: int) -> None:
        """Nobody may compute on the GPU before the first worker does.

        Raises:
            EnvironmentUnmet: where somebody does.
        """
        if not running:
            return
        names = []
        for pid in sorted(running):
            name = command_name(pid) if self._same_numbers else None
            names.append(f"process {pid}" + (f" ({name})" if name else ""))
        raise EnvironmentUnmet(
            "another process computes on the GPU",
            where=f"GPU {index}",
            expected="an idle GPU",
            found=", ".join(names),
            cause=None
            if self._same_numbers
            else "the number is the driver's, of the machine outside of this container",
            next="nvidia-smi; wait until it has ended, or choose another GPU with --gpu",
        )

    def strangers(self, running: frozenset[int] | None) -> frozenset[int]:
        """Those of ``running`` that are not of this run.

        Args:
            running: Who computes on the GPU, asked after every worker has computed on it.
        """
        if not running:
            if self.told == NOT_SEEN:
                self.told = NOT_LISTED
            return frozenset()
        if self._adopted is not None:
            return running - self._adopted
        if running - self._known:
            # A worker may have started others, whose numbers are worth a look at all processes.
            self._known = self._family(self._workers)
        if running & self._known or self._same_numbers:
            self.told = BY_NUMBER
            return running - self._known
        if len(running) <= len(self._workers):
            self.told, self._adopted = BY_COUNT, running
            return frozenset()
        return running
