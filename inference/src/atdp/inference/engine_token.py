"""The token of a home's inference engines: who has it may generate with them and swap weights.

The embedded workers and their clients read it from the home, so it is in no argument list, no
environment and no log. An SGLang server gets it as its `api-key` and `admin-api-key`.
"""

from atdp.runtime import Home, load_secret_key


def load_engine_token(home: Home) -> str:
    """Return the token of the home's engines (64 hex digits); a missing one is made.

    Raises:
        SecretKeyError: its file is damaged, or readable by other users.
    """
    secret = load_secret_key(
        home.engine_token_file,
        if_lost="restart the stack, and give the new token to your SGLang servers",
    )
    return secret.hex()


def bearer(token: str) -> dict[str, str]:
    """Return the HTTP header that carries the token; none for an empty one."""
    return {"authorization": f"Bearer {token}"} if token else {}
