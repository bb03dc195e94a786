"""Events per second through the codec, one thread, beside JSON of the same events.

    python benchmarks/codec.py [--json]

Two events: a message of about 2 KB, and a generation with 256 prompt and 128 output tokens and
their log-probabilities. `encode, plain` goes through a mapping and fastavro, `encode` through the
compiled schema; `json` dumps and loads the events' JSON form as plain dicts, with the values not
rebuilt: less work than `decode` does. Times are CPU times of the thread, so a busy machine distorts
them less.
"""

import argparse
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime

from atdp.schemas import (
    Action,
    Agent,
    Event,
    Generation,
    Message,
    Part,
    Source,
    TenantId,
    TrajectoryId,
    Usage,
    decode,
    decode_record,
    encode,
    encode_plainly,
    event_to_json,
    new_event_id,
)

TEXT = "The order left the warehouse this morning and will arrive on Tuesday. " * 23
MEASURE_S = 1.0


def event(generation: Generation, text: str) -> Event:
    return Event(
        event_id=new_event_id(),
        tenant_id=TenantId("bench"),
        trajectory_id=TrajectoryId(new_event_id()),
        producer_id="p",
        seq=7,
        step=2,
        occurred_at=datetime.now(UTC),
        agent=Agent(id="agent", version="1"),
        source=Source(format="sdk"),
        usage=Usage(input_tokens=256, output_tokens=128),
        latency_us=120_000,
        status="ok",
        body=Action(
            type="generation",
            message=Message(role="assistant", parts=(Part(text=text),)),
            generation=generation,
        ),
    )


EVENTS = {
    "message of 2 KB": event(Generation(model="m", finish_reason="stop"), TEXT),
    "generation with tokens": event(
        Generation(
            model="m",
            prompt_token_ids=tuple(range(1000, 1256)),
            output_token_ids=tuple(range(5000, 5128)),
            output_logprobs=tuple(-0.01 * index for index in range(128)),
            finish_reason="stop",
        ),
        TEXT[:600],
    ),
}


def per_second(action: Callable[[], object]) -> float:
    """Calls per CPU second of this thread."""
    action()
    calls, start = 0, time.thread_time()
    while (spent := time.thread_time() - start) < MEASURE_S:
        for _ in range(50):
            action()
        calls += 50
    return calls / spent


def measure(sample: Event) -> dict[str, float]:
    encoded, document = encode(sample), event_to_json(sample)
    text = json.dumps(document)
    return {
        "avro_bytes": len(encoded),
        "json_bytes": len(text.encode()),
        "encode_plainly_per_s": per_second(lambda: encode_plainly(sample)),
        "encode_per_s": per_second(lambda: encode(sample)),
        "json_dumps_per_s": per_second(lambda: json.dumps(document)),
        "event_to_json_text_per_s": per_second(lambda: json.dumps(event_to_json(sample))),
        "decode_per_s": per_second(lambda: decode(encoded)),
        "decode_record_per_s": per_second(lambda: decode_record(encoded)),
        "json_loads_per_s": per_second(lambda: json.loads(text)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = {name: measure(sample) for name, sample in EVENTS.items()}
    if options.json:
        print(json.dumps(results, indent=2))
        return
    print(f"{'':26}" + "".join(f"{name:>26}" for name in results))
    for row in next(iter(results.values())):
        print(f"{row:26}" + "".join(f"{result[row]:26,.0f}" for result in results.values()))
    for name, result in results.items():
        ratio = result["encode_per_s"] / result["event_to_json_text_per_s"]
        print(f"{name}: encode is {ratio:.1f} × value to JSON text")


if __name__ == "__main__":
    main()
