"""Which GPUs the caller's ``CUDA_VISIBLE_DEVICES`` leaves visible, and in which order.

A batch system gives a job its GPUs through this list. A run keeps to it: it takes no GPU
that the list leaves out, and an index means an entry of the list, as it does for every
CUDA program. CUDA numbers the GPUs of a machine by speed unless ``CUDA_DEVICE_ORDER`` says
``PCI_BUS_ID``; NVML always numbers them by bus. So an entry that is a number is taken only
where both agree (CUDA C++ Programming Guide, CUDA Environment Variables).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from artifact.errors import EnvironmentUnmet, UsageError

if TYPE_CHECKING:
    from artifact.bench.device import Gpu

LIST = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"

_PREFIXES = ("GPU-", "MIG-")


def devices(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The devices of ``gpus`` that are visible, in the order in which CUDA numbers them.

    Args:
        gpus: Every device of the machine, in NVML's order.
        environment: The caller's environment.

    Raises:
        EnvironmentUnmet: where the list hides every GPU.
        UsageError: where an entry names no GPU, several, or one a second time, or is a
            number that NVML and CUDA may understand differently.
    """
    text = environment.get(LIST)
    if text is None:
        return tuple(gpus)
    found: list[Gpu] = []
    for entry in map(str.strip, text.split(",")):
        # CUDA sees nothing of the list from such an entry on.
        if not entry or entry.startswith("-"):
            break
        gpu = _entry(entry, text, gpus, environment)
        if gpu in found:
            raise _bad(text, f"{entry} a second time", "each GPU once", gpus)
        found.append(gpu)
    if not found:
        raise EnvironmentUnmet(
            f"{LIST} hides every GPU",
            where=f"{LIST}={text}",
            expected="a list that names the GPU to be measured",
            found="no GPU in it",
            next=f"unset {LIST}, or name a GPU in it",
        )
    return tuple(found)


def _entry(entry: str, text: str, gpus: Sequence[Gpu], environment: Mapping[str, str]) -> Gpu:
    if entry.isdecimal():
        cards = [gpu for gpu in gpus if not gpu.card_uuid]
        alike = len({gpu.name for gpu in cards}) == 1
        if not alike and environment.get(ORDER) != "PCI_BUS_ID":
            raise UsageError(
                f"it is not certain which GPU a number in {LIST} means",
                where=f"{LIST}={text}",
                expected=f"UUIDs, or {ORDER}=PCI_BUS_ID",
                found=f"the number {entry}, on a machine with GPUs of several models",
                cause="CUDA numbers the fastest GPU first, NVML goes by the PCI bus",
                next=f"export {LIST}=UUID, with a UUID from: nvidia-smi -L",
                details=tuple(f"{gpu.index}: {gpu.described}" for gpu in gpus),
            )
        fitting = [gpu for gpu in cards if gpu.index == int(entry)]
    else:
        fitting = by_uuid(entry, gpus)
    if len(fitting) != 1:
        what = "several GPUs fit" if fitting else "no such GPU"
        raise _bad(text, f"{entry}: {what}", "indices or UUIDs of GPUs that are there", gpus)
    return fitting[0]


def by_uuid(text: str, gpus: Sequence[Gpu]) -> list[Gpu]:
    """The devices whose UUID is ``text`` or begins with it."""
    if not text.startswith(_PREFIXES) or text in _PREFIXES:
        return []
    exact = [gpu for gpu in gpus if gpu.uuid == text]
    return exact or [gpu for gpu in gpus if gpu.uuid.startswith(text)]


def _bad(text: str, found: str, expected: str, gpus: Sequence[Gpu]) -> UsageError:
    return UsageError(
        f"{LIST} is not a list of GPUs",
        where=f"{LIST}={text}",
        expected=expected,
        found=found,
        next=f"unset {LIST}, or correct it",
        details=tuple(f"{gpu.index}: {gpu.described}" for gpu in gpus),
    )
