"""A stand-in for an inference engine: SGLang 0.5.23's `/v1/chat/completions` answer, field by field, with canned text.

Tokens are the bytes of the text, log-probabilities -0.5, so that a test can tell what must arrive.
"""

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

DEEP = "[" * 300 + "]" * 300
"""JSON that parses and is nested deeper than anything here writes."""


def fake_engine(version: str = "v1") -> FastAPI:
    """Answers with a tool call when tools are offered and no result is there yet, else with text; `fail` as the last
    user message gives HTTP 500, `deep` deeply nested arguments of the tool call.
    """
    app = FastAPI()
    app.state.requests = []
    app.state.version = version

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> JSONResponse:
        body = await request.json()
        app.state.requests.append(body)
        messages = body["messages"]
        if messages[-1].get("content") == "fail":
            return JSONResponse({"error": {"message": "engine broke"}}, 500)
        calls = None
        text = f"reply {len(messages)}"
        if body.get("tools") and messages[-1]["role"] == "user":
            calls = [
                {
                    "id": f"call_{len(messages)}",
                    "index": 0,
                    "type": "function",
                    "function": {
                        "name": "look",
                        "arguments": DEEP
                        if messages[-1].get("content") == "deep"
                        else '{"order": 7}',
                    },
                }
            ]
            text = "looking"
        output = list(text.encode())
        prompt = list(json.dumps(messages).encode())
        choice: dict[str, Any] = {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": text,
                "reasoning_content": None,
                "tool_calls": calls,
            },
            "logprobs": None,
            "finish_reason": "tool_calls" if calls else "stop",
            "matched_stop": None,
        }
        if body.get("logprobs"):
            choice["logprobs"] = {
                "content": [
                    {"token": "x", "bytes": [token], "logprob": -0.5, "top_logprobs": []}
                    for token in output
                ]
            }
        if body.get("return_prompt_token_ids"):
            choice["prompt_token_ids"] = prompt
        if body.get("return_token_ids"):
            choice["response_token_ids"] = output
        spans = [{"version": app.state.version, "start": 0, "end": len(output)}]
        if body.get("return_meta_info"):
            choice["meta_info"] = {
                "weight_version": app.state.version,
                "weight_versions": spans,
                "output_token_logprobs": [[-0.5, token, None] for token in output],
            }
        return JSONResponse(
            {
                "id": "answer",
                "object": "chat.completion",
                "created": 1,
                "model": body["model"],
                "choices": [choice],
                "usage": {
                    "prompt_tokens": len(prompt),
                    "completion_tokens": len(output),
                    "total_tokens": len(prompt) + len(output),
                    "prompt_tokens_details": None,
                    "reasoning_tokens": 0,
                },
                "metadata": {"weight_version": app.state.version, "weight_versions": spans},
            }
        )

    @app.get("/model_info")
    def model_info() -> dict[str, Any]:
        return {
            "model_path": "fake",
            "weight_version": app.state.version,
            "tokenizer_hash": "f" * 64,
        }

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {
            "object": "list",
            "data": [{"id": "fake", "object": "model", "created": 1, "owned_by": "tests"}],
        }

    return app
