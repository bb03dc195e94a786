"""Errors of inference: of the worker that serves a model, and of the client that calls one."""


class InferenceError(Exception):
    """Base of every error that `atdp.inference` raises."""


class ModelError(InferenceError):
    """A model directory is missing, incomplete or of a kind that cannot be served or trained."""


class RequestError(InferenceError):
    """A request to the inference worker cannot be carried out as it stands (HTTP 400)."""


class NotReadyError(InferenceError):
    """The inference worker has no weights yet (HTTP 503)."""


class EngineError(InferenceError):
    """No engine serves the version that is asked for, and none could be made to."""
