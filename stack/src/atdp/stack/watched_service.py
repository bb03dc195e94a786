"""One service under the supervisor's watch: its process, its health checks, its lifecycle.

Call from one thread, the one that starts the process. Health checks run in a pool of threads; their
results are fetched from here.
"""

import logging
from collections.abc import Mapping
from concurrent.futures import Executor, Future

from atdp.stack.errors import StackError
from atdp.stack.log_files import last_lines
from atdp.stack.processes import Child
from atdp.stack.restarts import RestartPolicy, ServiceLifecycle
from atdp.stack.services import Probe, ServiceSpec
from atdp.stack.stack_state import ServiceEntry

_PROBE_EVERY_S = 1.0
_PROBE_WHILE_STARTING_S = 0.25
"""The interval while a service that is needed is not ready."""
_START_PATIENCE = 4
"""A process that has not answered yet may still be loading; it gets this many times longer."""
_LOG_TAIL_LINES = 15

_log = logging.getLogger("atdp.supervisor")


class WatchedService:
    """A service, its running process and its lifecycle."""

    def __init__(self, spec: ServiceSpec) -> None:
        """Plan the service; nothing is started."""
        self.spec = spec
        self.lifecycle = ServiceLifecycle()
        self.child: Child | None = None
        self.was_ready = False
        """Ready at least once since the supervisor began; survives restarts."""
        self._probe: Future[Probe] | None = None
        self._next_probe_s = 0.0
        self._answered_s = 0.0

    @property
    def is_up(self) -> bool:
        """True once it was ready; a service that is not needed only has to answer."""
        if self.spec.needed:
            return self.was_ready
        return self.child is not None and (self.was_ready or self._has_answered)

    @property
    def _has_answered(self) -> bool:
        return self._answered_s > self.lifecycle.started_s

    def start(self, now_s: float, environ: Mapping[str, str]) -> None:
        """Start the process.

        Raises:
            StackError: its command cannot be prepared or run.
        """
        self.child = Child(
            self.spec.command(),
            env={**environ, **self.spec.env},
            log=self.spec.log,
            when_orphaned=self.spec.when_orphaned,
        )
        self.lifecycle = self.lifecycle.started(now_s)
        self._answered_s = now_s
        self._next_probe_s = now_s
        self._probe = None
        _log.info(
            "started",
            extra={
                "of": self.spec.name,
                "pid": self.child.pid,
                "restarts": self.lifecycle.restarts,
            },
        )

    def fail_start(self, now_s: float, error: StackError, policy: RestartPolicy) -> None:
        """Follow a start that failed."""
        self.lifecycle = self.lifecycle.unstartable(now_s, str(error), policy)

    def collect_end(self, now_s: float, exit_code: int, policy: RestartPolicy) -> None:
        """Follow the end of the process that was not requested."""
        assert self.child is not None
        self.child.wait(now_s)  # it has ended; this ends the processes that it may have started
        self.child = None
        self._probe = None
        self.lifecycle = self.lifecycle.died(now_s, exit_code, policy)

    def check_health(self, now_s: float, pool: Executor) -> bool:
        """Begin a health check when one is due, and follow the result of one that is done.

        Returns True when the service became ready.
        """
        if self._probe is None:
            if now_s >= self._next_probe_s:
                self._probe = pool.submit(self.spec.probe)
            return False
        if not self._probe.done():
            return False
        probe = _result(self._probe)
        self._probe = None
        starting = not probe.ready and self.spec.needed
        self._next_probe_s = now_s + (_PROBE_WHILE_STARTING_S if starting else _PROBE_EVERY_S)
        return self._follow(probe, now_s)

    def _follow(self, probe: Probe, now_s: float) -> bool:
        if probe.live:
            self._answered_s = now_s
        if probe.ready and not self.was_ready:
            self.spec.on_ready()
            self.was_ready = True
        before = self.lifecycle.phase
        self.lifecycle = self.lifecycle.probed(now_s, ready=probe.ready, reason=probe.reason)
        return self.lifecycle.phase == "ready" and before != "ready"

    def silent_too_long_s(self, now_s: float, limit_s: float) -> float | None:
        """Return the limit that the time without an answer exceeds; None when it does not."""
        patience_s = limit_s if self._has_answered else limit_s * _START_PATIENCE
        return patience_s if now_s - self._answered_s > patience_s else None

    def end_of_log(self) -> str:
        """Return the last lines of its log, for an error message."""
        spec = self.spec
        tail = last_lines(spec.log, _LOG_TAIL_LINES) if spec.log_tail is None else spec.log_tail()
        return f"--- end of {spec.log}\n{tail}"

    def entry(self, epoch_s: float) -> ServiceEntry:
        """Return its published form; `epoch_s` is the wall time at which the clock showed 0."""
        return ServiceEntry(
            name=self.spec.name,
            phase=self.lifecycle.phase,
            since=round(self.lifecycle.since_s + epoch_s),
            pid=self.child.pid if self.child is not None else None,
            created=self.child.id.created if self.child is not None else 0.0,
            port=self.spec.port,
            restarts=self.lifecycle.restarts,
            last_exit_code=self.lifecycle.last_exit_code,
            reason=self.lifecycle.reason,
            log=str(self.spec.log),
        )


def _result(probe: Future[Probe]) -> Probe:
    try:
        return probe.result()
    except Exception as error:  # noqa: BLE001 (a broken check must not end the supervisor)
        _log.warning("a health check failed", exc_info=error)
        reason = f"health check failed ({type(error).__name__}: {error})"
        return Probe(live=False, ready=False, reason=reason)
