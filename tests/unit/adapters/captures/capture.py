# /// script
# requires-python = ">=3.11,<3.14"
# dependencies = [
#     "langchain-openai==1.7.3",
#     "langgraph==1.2.22",
#     "openai==3.54.0",
#     "openai-agents==0.24.0",
#     "openinference-instrumentation-langchain==0.1.80",
#     "openinference-instrumentation-openai==0.1.66",
#     "openinference-instrumentation-openai-agents==2.6.0",
#     "opentelemetry-exporter-otlp-json-http==0.66b1",
#     "opentelemetry-exporter-otlp-proto-http==1.45.1",
#     "opentelemetry-instrumentation-genai-openai==1.3b0",
#     "opentelemetry-instrumentation-genai-openai-agents==1.3b0",
#     "opentelemetry-instrumentation-openai-v2==2.3b0",
#     "opentelemetry-sdk==1.45.1",
#     "wrapt==1.17.3",
# ]
# ///
# mypy: ignore-errors
"""Captures what real instrumentations send over OTLP, with a model that is played on 127.0.0.1.

`uv run --script capture.py` writes one file per instrumentation and signal beside itself: the bytes
of each OTLP/JSON request, one request a line, as the exporter sent them. Each process also exports
OTLP protobuf; the script fails if that does not say the same as the JSON. The numbers and texts of
the played model are fixed, ids and times are those of the run.
"""

import base64
import contextlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

HERE = Path(__file__).parent
SCENARIOS = (
    *("genai_openai", "genai_openai_v2", "genai_openai_agents"),
    *("openinference_openai", "openinference_openai_agents", "openinference_langgraph"),
)
ASKED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "How warm is it in Zürich? 🌡"},
]
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the temperature of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
PICTURE = {
    "role": "user",
    "content": [
        {"type": "text", "text": "And here?"},
        {"type": "image_url", "image_url": {"url": "https://images.example/a.png"}},
    ],
}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Zürich"}'},
}
USAGE = {
    "prompt_tokens": 21,
    "completion_tokens": 7,
    "total_tokens": 28,
    "prompt_tokens_details": {"cached_tokens": 16, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 3, "audio_tokens": 0},
}


class PlayedModel(BaseHTTPRequestHandler):
    """The API of the model, and a receiver of OTLP that keeps the bodies by path."""

    received: ClassVar[dict[str, list[bytes]]] = {}
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.startswith(("/json/", "/proto/")):
            self.received.setdefault(self.path, []).append(body)
            self._send(200, b"{}" if self.path.startswith("/json/") else b"")
            return
        request = json.loads(body)
        if request.get("model") == "busy":
            error = {"type": "rate_limit", "code": "slow_down", "message": "Too many requests"}
            self._send(429, json.dumps({"error": error}).encode())
        elif self.path.endswith("/embeddings"):
            vectors = [
                {"object": "embedding", "index": index, "embedding": [0.5, -0.25, 1e-9]}
                for index in range(len(request["input"]))
            ]
            usage = {"prompt_tokens": 4, "total_tokens": 4}
            made = {"object": "list", "data": vectors, "model": "played-embed", "usage": usage}
            self._send(200, json.dumps(made).encode())
        elif request.get("stream"):
            self._stream(request)
        else:
            self._send(200, json.dumps(answer(request)).encode())

    def _stream(self, request: dict) -> None:
        common = {"id": "chatcmpl-2", "object": "chat.completion.chunk", "created": 1700000000}
        common = {**common, "model": "played-2026"}
        chunks = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
            for delta, reason in (
                ({"role": "assistant", "content": "It is "}, None),
                ({"content": "57 °F."}, None),
                ({}, "stop"),
            )
        ]
        if (request.get("stream_options") or {}).get("include_usage"):
            chunks.append({"choices": [], "usage": USAGE})
        lines = [f"data: {json.dumps({**common, **chunk})}\n\n" for chunk in chunks]
        self._send(200, "".join([*lines, "data: [DONE]\n\n"]).encode(), "text/event-stream")

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def answer(request: dict) -> dict:
    """Return a tool call to the first question with tools, and otherwise a text."""
    called = any(message["role"] == "tool" for message in request["messages"])
    names = [tool["function"]["name"] for tool in request.get("tools") or []]
    transfer = next((name for name in names if name.startswith("transfer_to_")), None)
    message: dict = {"role": "assistant", "content": "It is 57 °F.", "refusal": None}
    if not called and transfer is not None:
        function = {"name": transfer, "arguments": "{}"}
        call = {"id": "call_0", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    elif names and not any(turn.get("tool_call_id") == "call_1" for turn in request["messages"]):
        message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choices = [
        {"index": index, "message": message, "finish_reason": reason, "logprobs": None}
        for index in range(request.get("n") or 1)
    ]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "played-2026",
        "choices": choices,
        "usage": USAGE,
        "system_fingerprint": "fp_1",
        "service_tier": "default",
    }


def use_openai() -> None:
    """Ask once with a tool, give its result, stream, embed, and run into an error."""
    import openai

    client = openai.OpenAI(max_retries=0)
    tracer = opentelemetry_tracer()
    with tracer.start_as_current_span("answer the customer"):
        made = client.chat.completions.create(
            model="played",
            messages=ASKED,
            tools=[TOOL],
            temperature=0.5,
            top_p=1,
            max_tokens=4096,
            seed=7,
            stop=["END"],
            n=2,
        )
        result = {"role": "tool", "tool_call_id": "call_1", "content": '{"fahrenheit": 57}'}
        told = [*ASKED, made.choices[0].message.model_dump(exclude_none=True), result]
        client.chat.completions.create(model="played", messages=told, tools=[TOOL])
        streamed = client.chat.completions.create(
            model="played",
            messages=[*ASKED, PICTURE],
            stream=True,
            stream_options={"include_usage": True},
        )
        for _ in streamed:
            pass
        client.embeddings.create(model="played-embed", input=["a", "b"], encoding_format="float")
        with contextlib.suppress(openai.RateLimitError):
            client.chat.completions.create(model="busy", messages=ASKED)


def use_openai_agents() -> None:
    """Run an agent that hands over to a second one, which uses a tool."""
    import agents

    @agents.function_tool
    def weather(city: str) -> str:
        """Tells the temperature of a city."""
        return json.dumps({"city": city, "fahrenheit": 57})

    agents.set_default_openai_api("chat_completions")
    expert = agents.Agent(name="expert", instructions="Be brief.", model="played", tools=[weather])
    front = agents.Agent(name="front", instructions="Hand over.", model="played", handoffs=[expert])
    agents.Runner.run_sync(front, ASKED[1]["content"])


def use_langgraph() -> None:
    """Run a ready-made agent with one tool."""
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent

    @tool
    def weather(city: str) -> str:
        """Tells the temperature of a city."""
        return json.dumps({"city": city, "fahrenheit": 57})

    agent = create_react_agent(ChatOpenAI(model="played", temperature=0.5), [weather])
    agent.invoke({"messages": [("system", "Be brief."), ("user", ASKED[1]["content"])]})


def opentelemetry_tracer():
    from opentelemetry import trace

    return trace.get_tracer("shop", "3")


def instrument(scenario: str):
    """Turn an instrumentation on and return the program that it observes."""
    if scenario == "genai_openai":
        from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

        OpenAIInstrumentor().instrument()
        return use_openai
    if scenario == "genai_openai_v2":
        from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

        OpenAIInstrumentor().instrument()
        return use_openai
    if scenario == "genai_openai_agents":
        import agents
        from opentelemetry.instrumentation.genai.openai_agents import OpenAIAgentsInstrumentor

        agents.set_trace_processors([])  # it adds itself to a processor that calls the provider
        OpenAIAgentsInstrumentor().instrument()
        return use_openai_agents
    if scenario == "openinference_openai":
        from openinference.instrumentation.openai import OpenAIInstrumentor

        OpenAIInstrumentor().instrument()
        return use_openai
    if scenario == "openinference_openai_agents":
        from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

        OpenAIAgentsInstrumentor().instrument()
        return use_openai_agents
    from openinference.instrumentation.langchain import LangChainInstrumentor

    LangChainInstrumentor().instrument()
    return use_langgraph


def capture(scenario: str) -> None:
    """Run one scenario and write what its exporters sent."""
    from opentelemetry import _logs, trace
    from opentelemetry.exporter.otlp.json.http._log_exporter import (
        OTLPLogExporter as JsonLogs,
    )
    from opentelemetry.exporter.otlp.json.http.trace_exporter import (
        OTLPSpanExporter as JsonSpans,
    )
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as ProtoLogs
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as ProtoSpans
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    server = ThreadingHTTPServer(("127.0.0.1", 0), PlayedModel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    os.environ.update(OPENAI_API_KEY="none", OPENAI_BASE_URL=f"{base}/v1")
    resource = Resource.create({"service.name": "weather-desk", "service.version": "3"})
    spans, logs = TracerProvider(resource=resource), LoggerProvider(resource=resource)
    for exporter in (JsonSpans(f"{base}/json/traces"), ProtoSpans(f"{base}/proto/traces")):
        spans.add_span_processor(BatchSpanProcessor(exporter, max_export_batch_size=4))
    for exporter in (JsonLogs(endpoint=f"{base}/json/logs"), ProtoLogs(f"{base}/proto/logs")):
        logs.add_log_record_processor(BatchLogRecordProcessor(exporter, max_export_batch_size=512))
    trace.set_tracer_provider(spans)
    _logs.set_logger_provider(logs)
    program = instrument(scenario)
    program()
    spans.shutdown()
    logs.shutdown()
    server.shutdown()
    for signal in ("traces", "logs"):
        bodies = PlayedModel.received.get(f"/json/{signal}", [])
        check_against_protobuf(signal, bodies, PlayedModel.received.get(f"/proto/{signal}", []))
        if bodies:
            path = HERE / f"{scenario}.{signal}.jsonl"
            path.write_bytes(b"".join(body + b"\n" for body in bodies))
            print(f"{path.name}: {len(bodies)} requests, {path.stat().st_size} bytes")


def check_against_protobuf(signal: str, in_json: list[bytes], in_protobuf: list[bytes]) -> None:
    """Fail unless both encodings say the same, request by request."""
    from google.protobuf import json_format
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    kind = ExportTraceServiceRequest if signal == "traces" else ExportLogsServiceRequest
    parsed = [json_format.MessageToDict(kind.FromString(body)) for body in in_protobuf]
    read = [
        json_format.MessageToDict(
            json_format.Parse(json.dumps(with_base64(json.loads(body))), kind())
        )
        for body in in_json
    ]
    if records(read) != records(parsed):
        raise SystemExit(f"{signal}: JSON and protobuf differ")


def records(requests: list) -> list[str]:
    """Return the spans and log records of requests, which may be cut into batches differently."""
    found = [
        json.dumps(record, sort_keys=True)
        for request in requests
        for blocks in request.values()
        for block in blocks
        for scope in block.get("scopeSpans", block.get("scopeLogs", []))
        for record in scope.get("spans", scope.get("logRecords", []))
    ]
    return sorted(found)


def with_base64(value):
    """Return OTLP/JSON with the ids in base64, as protobuf's own JSON has them."""
    if isinstance(value, list):
        return [with_base64(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode()
        if key in {"traceId", "spanId", "parentSpanId"}
        else with_base64(item)
        for key, item in value.items()
    }


def main() -> None:
    if len(sys.argv) > 1:
        capture(sys.argv[1])
        return
    settings = {
        "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_and_event",
        "OPENAI_AGENTS_DISABLE_TRACING": "0",
    }
    for scenario in SCENARIOS:
        own = dict(settings)
        if scenario == "genai_openai_v2":  # its events of one message each, as version 2 sends them
            own = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
        environment = {**os.environ, **own}
        subprocess.run([sys.executable, __file__, scenario], check=True, env=environment)


if __name__ == "__main__":
    main()
