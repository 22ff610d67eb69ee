"""What one run executes: the verified tree, and the executables of its native backends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from artifact.bench import buildphase
from artifact.bench.buildphase import Verified
from artifact.bench.plan import Plan
from artifact.bench.rundir import LOCK_COPY, LOGS
from artifact.bench.scrub import Scrubber
from artifact.build.accept import require_executable
from artifact.build.plan import Unit
from artifact.errors import VerificationError
from artifact.integrity.atomic import write_atomic
from artifact.model.backend import Backend
from artifact.model.build import BuildFacts, BuiltKernel
from artifact.model.results import ArtifactRef, Scalar
from artifact.model.root import at_root


class Contents:
    """The tree and the builds of a run; nothing of either is executed unverified.

    Args:
        plan: What the run does.
        folder: The run folder.
        scrub: Knows the places of this machine.
    """

    def __init__(self, plan: Plan, folder: Path, scrub: Scrubber) -> None:
        self._plan = plan
        self._folder = folder
        self._scrub = scrub
        self._verified: Verified | None = None
        self._kernels: dict[str, BuiltKernel] = {}

    @property
    def verified(self) -> Verified:
        """What the verification said; there is none before :meth:`verify`."""
        assert self._verified is not None
        return self._verified

    def verify(self) -> None:
        """Hold the tree against its lock, and keep a copy of that in the run folder.

        Raises:
            ArtifactError: as :func:`artifact.bench.buildphase.verify_tree`.
        """
        plan = self._plan
        self._verified = buildphase.verify_tree(
            plan.root, plan.manifest, plan.units, plan.options.build, plan.options.unlocked_env
        )
        write_atomic(self._folder / LOCK_COPY, self.verified.lock_data)

    def reference(self, before: ArtifactRef) -> ArtifactRef:
        """``before`` with what is known of the tree by now."""
        report = self.verified.report
        return before.model_copy(
            update={
                "content_id": report.content_id,
                "lock_blake3": report.lock_blake3,
                "modified": self.verified.accepted.paths,
            }
        )

    def build(
        self,
        *,
        step: Callable[[str], None],
        failed: Callable[[str], None],
        say: Callable[[str], None],
    ) -> BuildFacts:
        """Make the executables, or take those that ``--skip-build`` found.

        The compiler's words of each are kept in the run folder, also where it fails.

        Args:
            step: Told of each executable that is ready.
            failed: Told the name of the backend that could not be built.
            say: Takes a sentence for the person at the terminal.

        Raises:
            ArtifactError: what failed.
        """
        plan = self._plan

        def not_built(unit: Unit) -> None:
            self._keep_log(unit)
            failed(unit.backend)

        facts = self.verified.facts
        if facts is None:
            facts, self._verified = buildphase.make(
                plan.root,
                plan.manifest,
                plan.units,
                plan.options.build,
                self.verified,
                unlocked=plan.options.unlocked_env,
                done=lambda _, kernel: step(buildphase.words(kernel)),
                failed=not_built,
                say=say,
            )
        else:
            for kernel in facts.kernels:
                step(buildphase.words(kernel))
        kernels = tuple(
            kernel.model_copy(update={"log": self._keep_log(self._unit(kernel.build.backend))})
            for kernel in facts.kernels
        )
        self._kernels = {kernel.build.backend: kernel for kernel in kernels}
        return facts.model_copy(update={"kernels": kernels})

    def _keep_log(self, unit: Unit) -> str | None:
        log = unit.log(self._plan.root)
        if not log.is_file():
            return None
        text = self._scrub.text(log.read_text(encoding="utf-8", errors="replace"))
        name = f"{LOGS}/{log.name}"
        write_atomic(self._folder / name, text.encode("utf-8"))
        return name

    def _unit(self, backend: str) -> Unit:
        return next(unit for unit in self._plan.units if unit.backend == backend)

    def executable(self, backend: Backend) -> Path:
        """The program of a native backend, below the root; it is hashed once more.

        Raises:
            StaleBuild: where it is not the one that was built.
        """
        unit, root = self._unit(backend.name), self._plan.root
        require_executable(root, unit, self._kernels[backend.name].build.executable_sha256)
        return unit.file(root).relative_to(root)

    def known(self, backend: Backend) -> dict[str, Scalar]:
        """Facts of a backend's kernel that its build says: no worker need be believed."""
        if (kernel := self._kernels.get(backend.name)) is None:
            return {}
        return {
            "cubin_sha256": kernel.build.cubin_sha256,
            "module_sha256": kernel.build.executable_sha256,
        }

    def digest(self, path: str) -> str | None:
        """The BLAKE3 of a file of the tree that is run; None for one that is not pinned."""
        accepted = self.verified.accepted.digests
        pins = self.verified.lock.pins()
        return accepted.get(path) or (pins[path].blake3 if path in pins else None)

    def verify_again(self) -> None:
        """The tree is still the one that was verified: its content id stands in the results.

        Raises:
            VerificationError: where it is not.
        """
        before = self.verified.report.content_id
        report = buildphase.verify_again(self._plan.root, self.verified.accepted)
        if report.content_id != before:
            raise VerificationError(
                "the tree changed while it was measured",
                expected=f"content id blake3:{before}",
                found=f"content id blake3:{report.content_id}",
                cause="somebody pinned it anew, or a worker writes into it",
                next=f"{at_root('artifact verify', self._plan.root)}; "
                "then run the same command again",
            )
