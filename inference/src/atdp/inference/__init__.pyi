from .chat_template import (
    ChatTemplate as ChatTemplate,
    Message as Message,
    Tool as Tool,
    default_template as default_template,
)
from .engine_info import engine_info as engine_info
from .errors import (
    EngineError as EngineError,
    InferenceError as InferenceError,
    ModelError as ModelError,
    NotReadyError as NotReadyError,
    RequestError as RequestError,
)
from .tokenizer import (
    END_OF_TEXT as END_OF_TEXT,
    TURN_END as TURN_END,
    register_tokenizer as register_tokenizer,
    tokenizer_hash as tokenizer_hash,
    train_tokenizer as train_tokenizer,
)
from .weight_loading import loading as loading
