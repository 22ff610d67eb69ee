"""A worker that is about to be started: its program, its environment, its raw log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from artifact.bench.childenv import ChildEnvironment, child_environment, command_line
from artifact.bench.contents import Contents
from artifact.bench.interpreters import Chosen
from artifact.bench.plan import Plan
from artifact.bench.rawlog import RawLog
from artifact.bench.reaper import Reaper
from artifact.bench.rundir import LOGS
from artifact.bench.scrub import Scrubber
from artifact.bench.session import Session
from artifact.bench.times import Times
from artifact.bench.worker import Worker
from artifact.model.backend import Backend
from artifact.model.results import RUNNER, BackendRun


def worker_environment(plan: Plan, backend: Backend, scratch: Path) -> ChildEnvironment:
    """The environment of a worker of ``plan``, started from this process."""
    return child_environment(
        backend,
        caller=os.environ,
        scratch=scratch,
        chosen=plan.worker_env.get(backend.name, {}),
        device_uuid=None if plan.gpu is None else plan.gpu.uuid,
    )


class Starter:
    """Makes the session of each backend of one run.

    Args:
        plan: What the run does.
        chosen: The interpreters of Python backends, by environment.
        contents: The verified tree and the executables of native backends.
        folder: The run folder.
        scrub: Knows the places of this machine.
        times: Where the time goes.
    """

    def __init__(
        self,
        plan: Plan,
        chosen: Mapping[str, Chosen],
        contents: Contents,
        folder: Path,
        scrub: Scrubber,
        times: Times,
    ) -> None:
        self._plan = plan
        self._chosen = chosen
        self._contents = contents
        self._folder = folder
        self._scrub = scrub
        self._times = times

    def session(
        self, backend: Backend, reaper: Reaper, scratch: Path
    ) -> tuple[Session, BackendRun]:
        """A session that has not begun, and what results.json says of its backend by now.

        Args:
            backend: Its manifest entry.
            reaper: Kills the worker if this process is killed.
            scratch: The run's folder for caches.

        Raises:
            StaleBuild: where a native backend's executable is not the one that was built.
        """
        plan = self._plan
        environment = worker_environment(plan, backend, scratch)
        recorded = self._scrub.mapping(environment.recorded)
        scrub = self._scrub.knowing(plan.worker_env.get(backend.name, {}))
        program, name = self._program(backend)
        log = RawLog(self._folder / LOGS / f"{backend.name}.log", scrub)
        for variable, value in sorted(recorded.items()):
            log.note(f"{variable}={value}")
        worker = Worker(
            backend.name,
            command_line(backend, program, plan.root),
            environment=environment.values,
            cwd=plan.root,
            log=log,
            reaper=reaper,
        )
        session = Session(backend, plan, worker, self._times, self._contents.known(backend))
        return session, BackendRun(
            name=backend.name,
            title=backend.title,
            anchor=backend.anchor,
            environment=name,
            worker=backend.worker,
            worker_blake3=self._contents.digest(backend.worker),
            env=recorded,
            log=f"{LOGS}/{backend.name}.log",
        )

    def _program(self, backend: Backend) -> tuple[Path, str | None]:
        """What is started for ``backend``, and the environment that it comes from."""
        if backend.kind == "native":
            return self._contents.executable(backend), None
        chosen = self._chosen[backend.environment or RUNNER]
        return chosen.path, chosen.environment
