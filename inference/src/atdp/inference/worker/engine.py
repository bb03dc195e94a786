"""The engine: one thread that owns the model and decodes all requests together (continuous batching).

Every turn of the loop: admit what waits (up to `max_rows` sequences, `_PREFILL_TOKENS` tokens),
draw one token for every sequence in the batch, finish those that are done, run the model one step
for the rest. So requests that arrive while others run join them at the next token, and 64
concurrent requests run as one batch.

Weight swaps happen between two steps. Without a pause the engine first lets the running requests
finish (as SGLang does), so a generation has one version. While paused it swaps at once; the
sequences in flight then read their tokens again under the new weights, and their version spans tell
which token came from which version. (SGLang's `in_place` continues on the old weights' cache
instead; here nothing is ever decoded against keys of other weights.)
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

import numpy as np

from atdp.inference.errors import NotReadyError, RequestError
from atdp.inference.worker.decoder import Floats, PrefillRow
from atdp.inference.worker.sampling import draw, log_softmax
from atdp.inference.worker.sequence import Finish, Job, Progress, Sequence, most_likely
from atdp.inference.worker.served_model import ServedModel

PauseMode = Literal["abort", "retract", "in_place"]

_PREFILL_TOKENS = 4096
"""Prompt tokens read per turn: bounds by how much newcomers delay the next token of the others
(about 0.2 s for a model of one million weights on one core)."""

_log = logging.getLogger("atdp.inference")


@dataclass
class Counters:
    """What the engine has done since its start; read by /metrics."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    steps: int = 0
    swaps: int = 0
    aborted: int = 0
    failed: int = 0
    running: int = 0
    waiting: int = 0


class Engine:
    """Thread-safe front of the decoding thread."""

    def __init__(self, *, max_rows: int = 64, seed: int | None = None) -> None:
        """Start without a model; `seed` fixes the draws of requests that bring no seed of their own."""
        self.max_rows = max_rows
        self.counters = Counters()
        self._model: ServedModel | None = None
        self._generator = np.random.default_rng(seed)
        self._waiting: deque[Sequence] = deque()
        self._active: list[Sequence] = []
        self._logits: list[Floats] = []
        self._orders: deque[tuple[Callable[[], object], bool, Future[object]]] = deque()
        self._paused = False
        self._stopping = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    # --- called from any thread ---

    @property
    def model(self) -> ServedModel:
        """The model that serves now. Raises NotReadyError before the first one."""
        if self._model is None:
            raise NotReadyError(
                "no model loaded; POST /update_weights_from_disk with a model directory first"
            )
        return self._model

    @property
    def loaded(self) -> bool:
        """Whether there is a model."""
        return self._model is not None

    def submit(self, job: Job) -> Future[Progress]:
        """Queue a job. Raises RequestError when it cannot fit the model's context."""
        model = self.model
        if not job.prompt:
            raise RequestError("Either text, input_ids or input_embeds should be provided.")
        context, asked = model.decoder.context, job.sampling.max_new_tokens
        if len(job.prompt) >= context + (asked == 0):
            raise RequestError(
                f"The input ({len(job.prompt)} tokens) is longer than the model's context length ({context} tokens)."
            )
        if len(job.prompt) + asked > context:
            raise RequestError(
                f"Requested token count exceeds the model's maximum context length of {context} tokens. You requested a "
                f"total of {len(job.prompt) + asked} tokens: {len(job.prompt)} tokens from the input messages and {asked} "
                "tokens for the completion. Please reduce the number of tokens in the input messages or the completion."
            )
        if min(job.prompt) < 0 or max(job.prompt) >= model.decoder.vocab_size:
            raise RequestError(
                f"input_ids must lie in [0, {model.decoder.vocab_size}) for this model."
            )
        sequence = Sequence(job, Future())
        with self._wake:
            if self._stopping:
                raise NotReadyError("the worker is stopping")
            self._waiting.append(sequence)
            self.counters.requests += 1
            self._wake.notify()
        return sequence.result

    def swap(self, model: ServedModel) -> Future[object]:
        """Serve `model` from now on: at once when paused or idle, else after the running requests."""
        return self._order(lambda: self._swap(model), after_running=True)

    def rename(self, version: str, *, abort_all: bool) -> Future[object]:
        """Give the same weights another version name."""

        def apply() -> None:
            if abort_all:
                self._abort(lambda _: True)
            model = self.model
            self._model = ServedModel(**{**vars(model), "version": version})

        return self._order(apply)

    def abort(self, rid: str | None) -> Future[object]:
        """End the jobs with this id (`None`: all) with what they have."""
        return self._order(lambda: self._abort(lambda job: rid is None or job.rid == rid))

    def pause(self, mode: PauseMode) -> Future[object]:
        """Stop decoding; `abort` ends what runs, `retract` and `in_place` keep it for `resume`."""

        def apply() -> None:
            self._paused = True
            if mode == "abort":
                self._abort(lambda _: True)
            elif mode == "retract":
                self._retract()

        return self._order(apply)

    def resume(self) -> Future[object]:
        """Go on decoding."""

        def apply() -> None:
            self._paused = False

        return self._order(apply)

    def flush(self) -> Future[object]:
        """Forget cached prefixes; true when nothing was running."""

        def apply() -> bool:
            idle = not self._active
            if idle and self._model is not None:
                self._model.decoder.flush()
            return idle

        return self._order(apply)

    def close(self, timeout_s: float = 10.0) -> None:
        """Finish what runs, refuse what comes, stop the thread; what is not done in time is aborted."""
        with self._wake:
            self._stopping = True
            self._paused = False
            self._wake.notify()
        self._thread.join(timeout_s)
        for sequence in (*self._active, *self._waiting):
            sequence.result.set_exception(
                NotReadyError("the worker stopped before this request was done")
            )

    # --- the engine's thread ---

    def _order(
        self, action: Callable[[], object], *, after_running: bool = False
    ) -> Future[object]:
        done: Future[object] = Future()
        with self._wake:
            self._orders.append((action, after_running, done))
            self._wake.notify()
        return done

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(self._has_work)
                if self._stopping and not (self._active or self._waiting or self._orders):
                    return
                orders = self._due_orders()
            for action, done in orders:
                try:
                    done.set_result(action())
                except Exception as error:  # noqa: BLE001 - the caller gets it; the loop serves the others
                    done.set_exception(error)
            if self._paused or self._model is None:
                continue
            try:
                self._turn(self._model)
            except Exception as error:  # noqa: BLE001 - one bad batch must not end the service for all after it
                _log.exception("decoding failed, the running requests are failed with it")
                self._fail(error)

    def _has_work(self) -> bool:
        if self._orders and (self._paused or not self._active or not self._orders[0][1]):
            return True
        if self._paused:
            return self._stopping
        return bool(self._active or self._waiting or self._stopping)

    def _due_orders(self) -> list[tuple[Callable[[], object], Future[object]]]:
        """Orders in sequence; a swap holds back itself and all behind it until nothing runs, unless paused."""
        due = []
        while self._orders:
            action, after_running, done = self._orders[0]
            if after_running and self._active and not self._paused:
                break
            self._orders.popleft()
            due.append((action, done))
        return due

    def _turn(self, model: ServedModel) -> None:
        with self._wake:
            joining = [] if self._orders else self._take_waiting()
            self.counters.waiting = len(self._waiting)
        if joining:
            self._admit(model, joining)
        if not self._active:
            return
        self._draw(model)
        self.counters.running = len(self._active)
        if self._active:
            self._logits = list(
                model.decoder.step([sequence.output[-1] for sequence in self._active])
            )
            self.counters.steps += 1

    def _take_waiting(self) -> list[Sequence]:
        room, budget = self.max_rows - len(self._active), _PREFILL_TOKENS
        taken: list[Sequence] = []
        while self._waiting and len(taken) < room:
            size = len(self._waiting[0].tokens)
            if taken and size > budget:
                break
            budget -= size
            taken.append(self._waiting.popleft())
        return taken

    def _admit(self, model: ServedModel, joining: list[Sequence]) -> None:
        self._active += joining  # first, so that a failure below fails them too
        rows = []
        for sequence in joining:
            start = sequence.job.input_logprobs_from
            wanted = None if start is None or sequence.output else max(start, 0)
            rows.append(PrefillRow(tokens=sequence.tokens, logits_from=wanted))
        for sequence, row, read in zip(joining, rows, model.decoder.prefill(rows), strict=True):
            sequence.admitted_at = sequence.admitted_at or time.time()
            sequence.cached = read.cached
            self.counters.prompt_tokens += len(row.tokens)
            self.counters.cached_tokens += read.cached
            if row.logits_from is not None:
                _score_prompt(sequence, read.logits, row.logits_from)
            self._logits.append(read.logits[-1])
        done = {
            row: Finish(kind="length")
            for row, sequence in enumerate(self._active)
            if len(sequence.output) >= sequence.job.sampling.max_new_tokens
        }
        self._finish(model, done)

    def _draw(self, model: ServedModel) -> None:
        settings = [sequence.job.sampling for sequence in self._active]
        uniforms = self._generator.random(len(self._active))
        for row, sequence in enumerate(self._active):
            if sequence.generator is not None:
                uniforms[row] = sequence.generator.random()
        tokens, logprobs = draw(np.stack(self._logits), settings, uniforms)
        done = {}
        for row, (sequence, token) in enumerate(zip(self._active, tokens.tolist(), strict=True)):
            sequence.record(token, logprobs[row], model.version)
            finish = _finished(sequence, model)
            if finish is not None:
                done[row] = finish
            elif sequence.job.on_token is not None:
                sequence.job.on_token(sequence.progress(model.version, None))
        self.counters.output_tokens += len(self._active)
        self._finish(model, done)

    def _finish(self, model: ServedModel, done: dict[int, Finish]) -> None:
        if not done:
            return
        finished = [(self._active[row], finish) for row, finish in done.items()]
        order = model.decoder.remove(done.keys())
        self._active = [self._active[row] for row in order]
        self._logits = [self._logits[row] for row in order]
        for sequence, finish in finished:
            sequence.result.set_result(sequence.progress(model.version, finish))

    def _swap(self, model: ServedModel) -> None:
        self._retract(counted=False)
        self._model = model
        self.counters.swaps += 1

    def _retract(self, *, counted: bool = True) -> None:
        """Put the running sequences back to the head of the queue; they keep their tokens and read them again."""
        for sequence in self._active:
            sequence.retractions += counted
        if self._active and self._model is not None:
            self._model.decoder.remove(range(len(self._active)))
        with self._wake:
            self._waiting.extendleft(reversed(self._active))
        self._active, self._logits = [], []

    def _abort(self, matches: Callable[[Job], bool]) -> None:
        with self._wake:
            gone = [sequence for sequence in self._waiting if matches(sequence.job)]
            self._waiting = deque(
                sequence for sequence in self._waiting if not matches(sequence.job)
            )
        self.counters.aborted += len(gone)
        version = self._model.version if self._model else "default"
        for sequence in gone:
            sequence.result.set_result(sequence.progress(version, Finish(kind="abort")))
        if self._model is not None:
            rows = {
                row: Finish(kind="abort")
                for row, seq in enumerate(self._active)
                if matches(seq.job)
            }
            self.counters.aborted += len(rows)
            self._finish(self._model, rows)

    def _fail(self, error: Exception) -> None:
        failed, self._active, self._logits = self._active, [], []
        self.counters.failed += len(failed)
        if self._model is not None:
            self._model.decoder.remove(range(len(self._model.decoder)))
            self._model.decoder.flush()
        for sequence in failed:
            sequence.result.set_exception(error)


def _score_prompt(sequence: Sequence, logits: Floats, first: int) -> None:
    """Log-probabilities of the prompt's tokens from `first` on; the first of them has none (SGLang's layout)."""
    prompt, logprobs = sequence.job.prompt, log_softmax(logits[:-1])
    following = np.asarray(prompt[first + 1 :], np.int64)
    sequence.input_logprobs = (None, *logprobs[np.arange(len(following)), following].tolist())
    if sequence.job.top_logprobs:
        sequence.input_top = (
            None,
            *(most_likely(row, sequence.job.top_logprobs) for row in logprobs),
        )


def _finished(sequence: Sequence, model: ServedModel) -> Finish | None:
    sampling, token = sequence.job.sampling, sequence.output[-1]
    if not sampling.ignore_eos and (token in sampling.stop_token_ids or token in model.eos_ids):
        return Finish(kind="stop", matched=token)
    if sampling.stop:
        text = model.text(tuple(sequence.output), skip_special_tokens=sampling.skip_special_tokens)
        for stop in sampling.stop:
            if stop in text:
                return Finish(kind="stop", matched=stop)
    if len(sequence.output) >= sampling.max_new_tokens:
        return Finish(kind="length")
    return None
