"""The ways in which a build fails."""

from __future__ import annotations

from artifact.errors import EnvironmentUnmet, VerificationError


class BuildFailed(VerificationError):
    """The pinned sources do not become the executable that the manifest asks for."""


class NotBuilt(EnvironmentUnmet):
    """There is no build, and the command was not to make one."""


class StaleBuild(VerificationError):
    """What is in build/ was made of other files, or was changed afterwards."""


class ToolchainDiffers(EnvironmentUnmet):
    """The tools are not those that the manifest pins, and nobody accepted others."""
