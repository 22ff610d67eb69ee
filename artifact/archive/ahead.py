"""Working ahead: an iterator runs on a thread of its own, a few items before its consumer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")

#: The longest wait for the thread's end: only one that hangs in a read takes so long.
_END_S = 5.0


class _End:
    """What follows the last item: nothing, or the exception that ended the iteration."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def ahead(items: Iterator[T], depth: int) -> Iterator[T]:
    """The items of ``items``, made on a thread while the consumer works on earlier ones.

    Pays where making an item releases the GIL, as decompressing does. At most ``depth`` + 1
    items wait. An exception of ``items`` is raised here, after the items before it. When
    this iterator is closed, ``items`` makes at most one more item, and is no longer used when
    the call returns: what it reads can be closed.
    """
    queue: SimpleQueue[T | _End] = SimpleQueue()
    room = threading.Semaphore(depth)
    stop = threading.Event()

    def work() -> None:
        try:
            for item in items:
                queue.put(item)
                room.acquire()
                if stop.is_set():
                    return
            queue.put(_End())
        except BaseException as error:
            queue.put(_End(error))

    thread = threading.Thread(target=work, name="ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = queue.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            room.release()
            yield item
    finally:
        stop.set()
        room.release()
        # The garbage collector may close it on any thread, the iterator's own included.
        if thread is not threading.current_thread():
            thread.join(_END_S)
