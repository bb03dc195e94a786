"""Start, watch and stop the services of one home.

One loop in the main thread owns every process (the kernel ties a child to the *thread* that started
it), a pool of threads looks at their health. What a service's next phase is, `restarts` decides;
this module only carries it out. Guarantees: one supervisor per home (a file lock); children end
with the supervisor, however it ends; a service that dies, or that does not answer its live check
for `_DEAF_S`, is started again with back-off; `run/stack.json` tells the truth as of the last
change. Once everything has been up, nothing but the request to stop ends the stack: where its state
cannot be written (a full disk), nobody can be told, or a look at a service breaks, that is logged
and tried again.
"""

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import psutil

from atdp.stack.broker.kafka import tail
from atdp.stack.errors import StackError
from atdp.stack.ledger import Ledger, ServiceEntry, StackEntry
from atdp.stack.processes import Child, ProcessId, end_leftovers
from atdp.stack.restarts import Life, RestartPolicy, describe_exit
from atdp.stack.services import Probe, Service

UP_TIMEOUT_S = 240.0  # a cold start takes about 20 s on two free cores; several stacks on busy ones take minutes
_TICK_S = 0.1
_LOOK_EVERY_S = 1.0  # four times as often while a service that is needed is not ready
# a frozen process is replaced after this; shorter, and a garbage collection on a busy machine costs
# a life
_DEAF_S = 45.0
_STARTUP_DEATHS = 3  # a service that dies this often before the stack was ever up will not come up

_log = logging.getLogger("atdp.supervisor")
Report = Callable[[str], None]


class _Watched:
    """One service with its process and what is known of it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.life = Life()
        self.child: Child | None = None
        self.look: Future[Probe] | None = None
        self.next_look_s = 0.0
        self.answered_s = 0.0
        self.introduced = False


class Supervisor:
    """Runs a plan of services until it is told to stop."""

    def __init__(
        self,
        ledger: Ledger,
        plan: Sequence[Service],
        *,
        environ: Mapping[str, str],
        policy: RestartPolicy | None = None,
        report: Report = lambda _text: None,
        deaf_s: float = _DEAF_S,
        up_timeout_s: float = UP_TIMEOUT_S,
    ) -> None:
        """`plan` in starting order; `report` gets one line for people at each notable change."""
        self._ledger = ledger
        self._watched = [_Watched(service) for service in plan]
        self._environ = environ
        self._policy = policy or RestartPolicy()
        self._report = report
        self._deaf_s = deaf_s
        self._up_timeout_s = up_timeout_s
        self._stop = threading.Event()
        self._hurry = False
        self._up = False
        self._published: StackEntry | None = None
        self._unpublished: str | None = None
        self._self = ProcessId(pid=0, created=0.0)
        self._epoch_s = time.time() - time.monotonic()

    def ask_to_stop(self, *_: object) -> None:
        """Begin a graceful stop; asked a second time, kill instead. Fit for a signal handler."""
        self._hurry = self._stop.is_set()
        self._stop.set()

    def run(self) -> None:
        """Start everything, watch until asked to stop, stop everything.

        Raises StackError (after everything was stopped) when the stack does not come up.
        """
        self._self = _myself()
        began_s = time.monotonic()
        pool = ThreadPoolExecutor(max_workers=max(1, len(self._watched)), thread_name_prefix="look")
        try:
            while not self._stop.is_set():
                now_s = time.monotonic()
                for watched in self._watched:
                    self._step(watched, now_s, pool)
                if self._up:
                    self._publish_quietly()
                else:
                    self._come_up(now_s - began_s)
                    self._publish()
                self._stop.wait(_TICK_S)
        finally:
            self._stop_all()
            pool.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------------ one service, one moment

    def _step(self, watched: _Watched, now_s: float, pool: ThreadPoolExecutor) -> None:
        life, child = watched.life, watched.child
        if child is not None and (code := child.exit_code()) is not None:
            self._mourn(watched, code, now_s)
        elif life.due(now_s) and self._may_start(watched.service):
            self._start(watched, now_s)
        elif child is not None:
            self._look(watched, now_s, pool)

    def _may_start(self, service: Service) -> bool:
        return all(
            watched.introduced for watched in self._watched if watched.service.name in service.after
        )

    def _start(self, watched: _Watched, now_s: float) -> None:
        service = watched.service
        try:
            command = service.command()
            watched.child = Child(
                command,
                env={**self._environ, **service.env},
                log=service.log,
                when_orphaned=service.when_orphaned,
            )
        except StackError as error:
            if not self._up:
                raise
            _log.exception("cannot start %s", service.name)
            watched.life = watched.life.unstartable(now_s, str(error), self._policy)
            self._say(f"{service.name} {watched.life.reason}")
            return
        watched.life = watched.life.started(now_s)
        watched.answered_s = now_s
        watched.next_look_s = now_s
        watched.look = None
        _log.info(
            "started",
            extra={"of": service.name, "pid": watched.child.pid, "restarts": watched.life.restarts},
        )

    def _look(self, watched: _Watched, now_s: float, pool: ThreadPoolExecutor) -> None:
        if watched.look is None:
            if now_s >= watched.next_look_s:
                watched.look = pool.submit(watched.service.probe)
            return
        if watched.look.done():
            probe = _seen(watched.look)
            watched.look = None
            hurry = not probe.ready and watched.service.needed
            watched.next_look_s = now_s + (_LOOK_EVERY_S / 4 if hurry else _LOOK_EVERY_S)
            self._heard(watched, probe, now_s)
        # A process that has not answered yet may still be loading; it gets longer.
        patience_s = self._deaf_s * (1 if watched.answered_s > watched.life.born_s else 4)
        if now_s - watched.answered_s > patience_s and watched.child is not None:
            self._say(f"{watched.service.name} has not answered for {patience_s:.0f} s: killing it")
            watched.child.kill()

    def _heard(self, watched: _Watched, probe: Probe, now_s: float) -> None:
        service = watched.service
        if probe.live:
            watched.answered_s = now_s
        first = probe.ready and not watched.introduced
        if first:
            service.on_ready()
            watched.introduced = True
        before = watched.life.phase
        watched.life = watched.life.probed(now_s, ready=probe.ready, reason=probe.reason)
        if watched.life.phase == "ready" and before != "ready":
            where = f" on port {service.port}" if service.port else ""
            self._say(f"{service.name} is ready{where} ({now_s - watched.life.born_s:.1f} s)")

    def _mourn(self, watched: _Watched, code: int, now_s: float) -> None:
        service = watched.service
        assert watched.child is not None
        watched.child.wait(now_s)  # it has ended; this ends what it may have started itself
        watched.child = None
        watched.look = None
        watched.life = watched.life.died(now_s, code, self._policy)
        self._say(f"{service.name} {watched.life.reason}")
        _log.warning("died", extra={"of": service.name, "exit_code": code})
        if not self._up and watched.life.deaths_in_a_row >= _STARTUP_DEATHS:
            raise StackError(
                f"{service.name} does not start: it died {_STARTUP_DEATHS} times, last with "
                f"{describe_exit(code)}.\n"
                f"{_end_of_log(service)}"
            )

    # ------------------------------------------------------------------ the whole

    def _come_up(self, elapsed_s: float) -> None:
        waiting = [watched for watched in self._watched if not _is_up(watched)]
        if not waiting:
            self._up = True
            self._say(f"up ({elapsed_s:.1f} s)")
        elif elapsed_s > self._up_timeout_s:
            reasons = "; ".join(
                f"{w.service.name}: {w.life.reason or w.life.phase}" for w in waiting
            )
            raise StackError(
                f"The stack did not come up within {self._up_timeout_s:.0f} s. "
                f"{reasons}.\n{_end_of_log(waiting[0].service)}"
            )

    def _stop_all(self) -> None:
        self._say("stopping; ask again to kill")
        for wave in sorted({watched.service.wave for watched in self._watched}, reverse=True):
            going = [w for w in self._watched if w.service.wave == wave and w.child is not None]
            now_s = time.monotonic()
            for watched in going:
                assert watched.child is not None
                watched.life = watched.life.stopping(now_s)
                watched.child.terminate()
            self._publish_quietly()
            for watched in going:
                self._await_end(watched, now_s + watched.service.stop_grace_s)
        self._publish_quietly()

    def _await_end(self, watched: _Watched, deadline_s: float) -> None:
        child = watched.child
        assert child is not None
        while child.exit_code() is None and time.monotonic() < deadline_s and not self._hurry:
            time.sleep(0.02)
        if child.exit_code() is None and not self._hurry:
            self._say(f"{watched.service.name} did not stop in time: killed")
        code = child.wait(time.monotonic())
        watched.child = None
        watched.life = watched.life.stopped(time.monotonic(), code)

    # ------------------------------------------------------------------ saying so

    def _publish(self) -> None:
        entries = tuple(
            ServiceEntry(
                name=watched.service.name,
                phase=watched.life.phase,
                since=round(watched.life.since_s + self._epoch_s),
                pid=watched.child.pid if watched.child is not None else None,
                created=watched.child.id.created if watched.child is not None else 0.0,
                port=watched.service.port,
                restarts=watched.life.restarts,
                last_exit_code=watched.life.last_exit_code,
                reason=watched.life.reason,
                log=str(watched.service.log),
            )
            for watched in self._watched
        )
        stack = StackEntry(
            pid=self._self.pid, created=self._self.created, up=self._up, services=entries
        )
        if stack != self._published:
            self._ledger.publish(stack)
            self._published = stack

    def _publish_quietly(self) -> None:
        # Watching and stopping must go on when the disk is full. Every tick tries again; said once.
        try:
            self._publish()
        except StackError as error:
            if str(error) != self._unpublished:
                _log.error("the state of the stack cannot be written: %s", error)
            self._unpublished = str(error)
        else:
            self._unpublished = None

    def _say(self, line: str) -> None:
        # Where lines go is not the stack's concern: a closed terminal or a full disk must not end
        # it.
        with contextlib.suppress(OSError, ValueError):
            self._report(line)


def _seen(look: Future[Probe]) -> Probe:
    try:
        return look.result()
    except Exception as error:  # noqa: BLE001 (a look that breaks must not end what it looks at)
        _log.warning("a look at a service broke", exc_info=error)
        return Probe(
            live=False, ready=False, reason=f"cannot be looked at ({type(error).__name__}: {error})"
        )


def _is_up(watched: _Watched) -> bool:
    if watched.service.needed:
        return watched.introduced
    return watched.child is not None and (
        watched.introduced or watched.answered_s > watched.life.born_s
    )


def _end_of_log(service: Service) -> str:
    text = service.log_tail() if service.log_tail is not None else tail(service.log, 15)
    return f"--- end of {service.log}\n{text}"


def _myself() -> ProcessId:
    return ProcessId(pid=os.getpid(), created=psutil.Process().create_time())


@contextlib.contextmanager
def stop_signals(supervisor: Supervisor) -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP stop the supervisor while the block runs."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, supervisor.ask_to_stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def clear_leftovers(ledger: Ledger, report: Report) -> None:
    """End what a supervisor that was killed left behind; call while holding the lock."""
    stack = ledger.read()
    if stack is not None and (ended := end_leftovers(stack.processes())):
        report(
            f"ended {len(ended)} process(es) left by a supervisor that was killed: "
            f"{', '.join(map(str, ended))}"
        )
