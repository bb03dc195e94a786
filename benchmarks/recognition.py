"""Recognition of conversations: the share of calls that the gateway puts into the right trajectory.

Run: `python benchmarks/recognition.py [--json] [--limit N] [--at-once 50] [FILE…]`. The files are
results of tau-bench (a list of rows with `traj`) or tau2-bench (`simulations`); without any, those
under `../shared/data`. Each conversation is replayed as plain chat calls through a real gateway
(HTTP, an event log in memory, a scripted engine): no header, no session, several at once, under
three keys of two tenants. Clients echo with other white space and null for empty text; calls fail
and are made again, with and without a mark; requests are made again for another sample or with
`n = 2`; a tenth of the conversations show a sliding window, a fifth are compacted twice, a tenth
edit an earlier message, a tenth have a twin with the same beginning. The gateway is started anew
half-way.

Each trajectory is matched with one conversation, and each conversation with one trajectory. A call
is right when it lands in a trajectory whose conversation has the same request, word by word (two
conversations that are equal up to a call may be swapped there). The context that readers fold is
compared with what each call showed.
"""

import argparse
import asyncio
import contextlib
import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from atdp.gateway import EventLog, GatewaySettings, MemoryEventLog, create_app
from atdp.runtime import Home, KeyStore
from atdp.schemas import Action, ContextFold, Event, Message, decode, messages_from_chat

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
Chat = dict[str, Any]


@dataclass(slots=True)
class Call:
    """One request of a client, and what the engine answers."""

    messages: list[Chat]
    answers: list[Chat]
    marked: bool = False
    fails: bool = False


@dataclass(slots=True)
class Conversation:
    """A conversation as the calls that its client makes."""

    name: str
    key: int
    calls: list[Call]


@dataclass(slots=True)
class Outcome:
    """Where a call landed."""

    conversation: str
    key: int
    request: str
    trajectory: str
    rule: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class Engine:
    """A scripted engine: the answers by the seed of the request."""

    answers: dict[int, Call] = field(default_factory=dict)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        status, answer = 200, b'{"weight_version": "v1", "tokenizer_hash": "ff"}'
        if scope["path"] != "/model_info":
            status, answer = self._answer(json.loads(body))
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    def _answer(self, body: Any) -> tuple[int, bytes]:
        call = self.answers.pop(body["seed"])
        if call.fails:
            return 500, b'{"error": {"message": "engine broke"}}'
        choices = [
            {"index": index, "message": message, "finish_reason": "stop"}
            for index, message in enumerate(call.answers)
        ]
        answer = {"id": f"r{body['seed']}", "object": "chat.completion", "created": 1}
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        return 200, json.dumps(
            {**answer, "model": body["model"], "choices": choices, "usage": usage}
        ).encode()


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an ASGI application on a free port of this machine until the block ends."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(server.serve([listener])))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        loop.close()
        listener.close()


def read_conversations(files: Sequence[Path]) -> Iterator[tuple[str, list[Chat]]]:
    """Yield name and messages of each conversation in the files."""
    for file in files:
        document = json.loads(file.read_text("utf-8"))
        rows = document["simulations"] if isinstance(document, dict) else document
        for index, row in enumerate(rows):
            if isinstance(document, dict):
                policy = {
                    "role": "system",
                    "content": document["info"]["environment_info"]["policy"],
                }
                messages = [policy, *map(_from_tau2, row["messages"])]
            else:
                messages = [_plain(message) for message in row.get("traj") or []]
            if any(message["role"] == "assistant" for message in messages):
                yield f"{file.stem}/{index}", messages


def _plain(message: Chat) -> Chat:
    keys = ("role", "content", "tool_calls", "tool_call_id", "name")
    return {key: message[key] for key in keys if message.get(key) is not None or key == "content"}


def _from_tau2(message: Chat) -> Chat:
    if message["role"] == "tool":
        return {"role": "tool", "tool_call_id": message["id"], "content": message["content"]}
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
        }
        for call in message.get("tool_calls") or []
    ]
    plain = {"role": message["role"], "content": message["content"]}
    return {**plain, "tool_calls": calls} if calls else plain


def make_calls(messages: list[Chat], manner: str, chance: random.Random) -> list[Call]:
    """Return the calls of a conversation's client."""
    turns = [index for index, each in enumerate(messages) if each["role"] == "assistant"]
    compact_at = {turns[len(turns) // 3], turns[2 * len(turns) // 3]} if len(turns) > 5 else set()
    edit_at = chance.choice(turns[2:]) if manner == "edits" and len(turns) > 4 else None
    calls: list[Call] = []
    shown: list[Chat] = []
    end = 0
    for turn in turns:
        shown += [_echo(each, chance) for each in messages[end:turn]]
        end = turn
        if manner == "compacts" and turn in compact_at:
            shown = _compacted(shown, turn)
        request = _window(shown) if manner == "window" else list(shown)
        answer = messages[turn]
        if turn == edit_at:
            edited = _edited(request)
            calls.append(Call(edited, [{"role": "assistant", "content": f"On the edit: {turn}."}]))
        calls += _with_accidents(request, answer, turn, chance)
    return calls


def _with_accidents(
    request: list[Chat], answer: Chat, turn: int, chance: random.Random
) -> list[Call]:
    drawn = chance.random()
    other = {"role": "assistant", "content": f"Another sample of turn {turn}, which nobody took."}
    has_answer = any(message["role"] == "assistant" for message in request)
    if drawn < 0.04:
        marked = not has_answer or chance.random() < 0.5
        return [Call(request, [], fails=True), Call(request, [answer], marked=marked)]
    if drawn < 0.07 and has_answer:
        return [Call(request, [answer]), Call(request, [other])]
    if drawn < 0.09:
        return [Call(request, [answer, other])]
    return [Call(request, [answer])]


def _echo(message: Chat, chance: random.Random) -> Chat:
    """Return a message as some client echoes it."""
    echoed = dict(message)
    if chance.random() < 0.3:
        if echoed["role"] == "assistant" and not echoed.get("content"):
            echoed["content"] = ""
        elif echoed["role"] == "assistant":
            echoed["content"] = f" {echoed['content']}\n"
        if echoed.get("tool_calls"):
            echoed["tool_calls"] = [
                {
                    **call,
                    "function": {
                        "name": call["function"]["name"],
                        "arguments": json.dumps(
                            json.loads(call["function"]["arguments"]), indent=1, sort_keys=True
                        ),
                    },
                }
                for call in echoed["tool_calls"]
            ]
    return echoed


def _window(shown: list[Chat]) -> list[Chat]:
    head = shown[:1]
    tail = shown[1:][-8:]
    while tail and tail[0]["role"] == "tool":
        tail = tail[1:]
    return [*head, *tail]


def _compacted(shown: list[Chat], turn: int) -> list[Chat]:
    keep = 4
    while keep < len(shown) and shown[-keep]["role"] == "tool":
        keep += 1
    summary = {"role": "user", "content": f"Summary of what was said before turn {turn}."}
    return [shown[0], summary, *shown[1:][-keep:]]


def _edited(request: list[Chat]) -> list[Chat]:
    last = max(index for index, each in enumerate(request) if each["role"] != "assistant")
    changed = {**request[last], "content": f"{request[last]['content']} (edited)"}
    return [*request[:last], changed]


MANNERS = ("window", "compacts", "compacts", "edits", "twin", *("plain",) * 5)


def make_load(
    read: Sequence[tuple[str, list[Chat]]], *, keys: int, seed: int = 1
) -> list[Conversation]:
    """Return the conversations with their calls; a conversation may come under several keys."""
    chance = random.Random(seed)
    load = []
    for number, (name, messages) in enumerate(read):
        manner = MANNERS[number % len(MANNERS)]
        copies = [(name, messages)]
        if manner == "twin":
            cut = max(3, len(messages) // 2)
            fork = {"role": "user", "content": f"I would rather ask something else, {number}."}
            copies.append((name + "/twin", [*messages[:cut], fork, *messages[cut:]]))
        for copy, shown in copies:
            load.append(Conversation(copy, number % keys, make_calls(shown, manner, chance)))
        if number % 10 == 0:  # the same words under another key
            load.append(
                Conversation(f"{name}/other key", (number + 1) % keys,
                             make_calls(messages, "plain", chance))
            )  # fmt: skip
    return load


def run_load(
    load: Sequence[Conversation], *, folder: Path, at_once: int, seed: int = 1
) -> tuple[list[Outcome], list[tuple[Call, int]], list[Event]]:
    """Make all calls through gateways of one home; returns where they landed, and the log."""
    chance, log, engine = random.Random(seed), MemoryEventLog(), Engine()
    home = Home(folder)

    async def open_log() -> EventLog:
        return log

    with KeyStore(home.keys_db) as store:
        keys = [str(store.create(tenant, "agent")[0]) for tenant in ("acme", "acme", "other")]
    waiting = [(each, iter(each.calls)) for each in load]
    active = [waiting.pop(0) for _ in range(min(at_once, len(waiting)))]
    outcomes: list[Outcome] = []
    made: list[tuple[Call, int]] = []
    total = sum(len(each.calls) for each in load)
    with serving(engine) as engine_url:
        for half in (total // 2, total):
            app = create_app(GatewaySettings(home=home, engine=engine_url), open_log=open_log)
            with serving(app) as url, httpx.Client(base_url=url, timeout=60) as client:
                while active and len(outcomes) < half:
                    index = chance.randrange(len(active))
                    conversation, calls = active[index]
                    call = next(calls, None)
                    if call is None:
                        active.pop(index)
                        if waiting:
                            active.append(waiting.pop(0))
                        continue
                    seed_of_call = len(outcomes)
                    engine.answers[seed_of_call] = call
                    made.append((call, seed_of_call))
                    key = keys[conversation.key]
                    outcomes.append(_make(client, conversation, call, seed_of_call, key))
    events = [decode(record.value) for record in log.records]
    for event in events:
        body = event.body
        if isinstance(body, Action) and body.generation is not None and event.links:
            sampling = body.generation.sampling
            if sampling is not None and sampling.seed is not None and event.links[0].inferred_by:
                outcomes[sampling.seed].rule = event.links[0].inferred_by
    return outcomes, made, events


def _make(
    client: httpx.Client, conversation: Conversation, call: Call, seed: int, key: str
) -> Outcome:
    body = {"model": "m", "messages": call.messages, "seed": seed}
    if len(call.answers) > 1:
        body["n"] = len(call.answers)
    headers = {"Authorization": f"Bearer {key}"}
    if call.marked:
        headers["x-stainless-retry-count"] = "1"
    began = time.perf_counter()
    answer = client.post("/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == (500 if call.fails else 200), answer.text
    return Outcome(
        conversation.name,
        conversation.key,
        json.dumps([_said(message) for message in call.messages], sort_keys=True),
        answer.headers["x-atdp-trajectory"],
        "failed call" if call.fails else "",
        time.perf_counter() - began,
    )


def _said(message: Chat) -> list[Any]:
    """Return a message without what clients change when they echo it."""
    calls = [
        [call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])]
        for call in message.get("tool_calls") or []
    ]
    text = " ".join((message.get("content") or "").split())
    return [message["role"], text, calls, message.get("tool_call_id")]


def judge(outcomes: Sequence[Outcome], *, list_wrong: bool = False) -> dict[str, Any]:
    """Return the shares of right calls: all, by rule, and the trajectories with several keys."""
    keys: dict[str, set[int]] = defaultdict(set)
    equal: dict[tuple[int, str], set[str]] = defaultdict(set)
    for each in outcomes:
        keys[each.trajectory].add(each.key)
        equal[each.key, each.request].add(each.conversation)
    votes: Counter[tuple[str, str]] = Counter()
    word_by_word: Counter[tuple[str, str]] = Counter()
    for each in outcomes:
        word_by_word[each.trajectory, each.conversation] += 1
        votes.update((each.trajectory, name) for name in equal[each.key, each.request])
    home, strict_home = _matched(votes), _matched(word_by_word)
    rules: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    strict = 0
    for each in outcomes:
        right = home.get(each.trajectory) in equal[each.key, each.request]
        strict += strict_home.get(each.trajectory) == each.conversation
        rules[each.rule][0] += right
        rules[each.rule][1] += 1
        if list_wrong and not right:
            sys.stderr.write(f"{each.conversation}: {each.rule or 'failed call'} is not right\n")
    return {
        "conversations": len({each.conversation for each in outcomes}),
        "calls": len(outcomes),
        "right": sum(right for right, _ in rules.values()) / len(outcomes),
        "right_word_by_word": strict / len(outcomes),
        "trajectories_of_several_keys": sum(len(each) > 1 for each in keys.values()),
        "rules": {rule: {"right": r, "calls": n} for rule, (r, n) in sorted(rules.items())},
        "p50_ms": 1e3 * sorted(each.seconds for each in outcomes)[len(outcomes) // 2],
    }


def _matched(votes: Counter[tuple[str, str]]) -> dict[str, str]:
    """Return the conversation of each trajectory: the most votes first, each of both once."""
    matched: dict[str, str] = {}
    taken: set[str] = set()
    for (trajectory, name), _ in sorted(votes.items(), key=lambda item: (-item[1], item[0])):
        if trajectory not in matched and name not in taken:
            matched[trajectory] = name
            taken.add(name)
    return matched


def broken_contexts(made: Sequence[tuple[Call, int]], events: Sequence[Event]) -> int:
    """Return how many generations a reader would see with another context than the call showed."""
    folds: dict[tuple[str, str], ContextFold[Message]] = {}
    calls = {seed: call for call, seed in made}
    broken = 0
    for event in events:
        fold = folds.setdefault((event.tenant_id, event.trajectory_id), ContextFold())
        body = event.body
        if isinstance(body, Action) and body.generation is not None:
            sampling = body.generation.sampling
            assert sampling is not None
            shown = messages_from_chat(calls[sampling.seed or 0].messages)
            broken += not fold.intact or tuple(fold.messages) != shown
        fold.add_event(event)
    return broken


def main() -> None:
    """Parse the arguments, replay, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--limit", type=int, default=10_000, help="at most so many conversations")
    parser.add_argument("--at-once", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--wrong", action="store_true", help="list the calls that are not right")
    options = parser.parse_args()
    files = options.files or sorted(
        [*DATA.glob("tau_bench_retail/tool-*.json"), *DATA.glob("tau2_retail/*.json")]
    )
    read = list(read_conversations(files))
    random.Random(options.seed).shuffle(read)
    load = make_load(read[: options.limit], keys=3, seed=options.seed)
    with tempfile.TemporaryDirectory() as folder:
        outcomes, made, events = run_load(load, folder=Path(folder), at_once=options.at_once)
    report = judge(outcomes, list_wrong=options.wrong)
    report["broken_contexts"] = broken_contexts(made, events)
    if options.json:
        sys.stdout.write(json.dumps(report, indent=1) + "\n")
        return
    for name, value in report.items():
        if name != "rules":
            sys.stdout.write(f"{name:32} {value}\n")
    for rule, counts in report["rules"].items():
        share = counts["right"] / counts["calls"]
        sys.stdout.write(f"  {rule:30} {counts['right']:6} of {counts['calls']:6}  {share:.4f}\n")


if __name__ == "__main__":
    main()
