"""Answers about requests whose fields are wrong."""

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.testclient import TestClient
from pydantic import BaseModel, ConfigDict

from atdp.runtime import invalid_request_response


class Wish(BaseModel):
    """A request."""

    model_config = ConfigDict(extra="forbid")

    count: int


def client() -> TestClient:
    app = FastAPI()
    app.add_exception_handler(RequestValidationError, invalid_request_response)

    @app.post("/wishes")
    def wish(wish: Wish) -> int:
        return wish.count

    return TestClient(app)


def test_a_wrong_field_is_named_and_its_value_is_not_quoted() -> None:
    answer = client().post("/wishes", json={"count": "ann@example.com", "cuont": "bob"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, "invalid_request")
    assert "body.count: Input should be a valid integer" in error["message"]
    assert "body.cuont: Extra inputs are not permitted" in error["message"]
    assert "ann@" not in answer.text


def test_json_without_its_content_type_is_told_what_to_send() -> None:
    answer = client().post("/wishes", content='{"count": 1}')
    assert "Content-Type: application/json" in answer.json()["error"]["message"]
