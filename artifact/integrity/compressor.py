"""What the loaded deflate library says of itself: the lock pins it, packing compares it."""

from __future__ import annotations

from typing import Literal

from artifact.errors import EnvironmentUnmet


def runtime_version(implementation: Literal["zlib", "zlib-ng"]) -> str:
    """The version of the compressor that is loaded now, as the library itself reports it.

    Raises:
        EnvironmentUnmet: where the library is not installed.
    """
    if implementation == "zlib":
        import zlib

        return zlib.ZLIB_RUNTIME_VERSION
    try:
        from zlib_ng import zlib_ng
    except ImportError as error:
        raise EnvironmentUnmet(
            "the pinned compressor is not installed",
            where="archive.deflate.implementation",
            expected="zlib-ng",
            found=str(error),
            next="python -m pip install zlib-ng",
        ) from error
    return str(zlib_ng.ZLIBNG_RUNTIME_VERSION)
