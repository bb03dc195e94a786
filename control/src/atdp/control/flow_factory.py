"""The composition of a release flow for a running stack."""

import httpx

from atdp.control.errors import ControlError
from atdp.control.flow import ReleaseFlow
from atdp.control.http_ports import HttpFleet, HttpRouter
from atdp.control.outbox import KafkaTopic, Outbox
from atdp.control.store import ReleaseStore, line_name
from atdp.inference import load_engine_token
from atdp.runtime import Home, KafkaSettings, SettingsError, SignedTopic


def decisions_outbox(home: Home, store: ReleaseStore) -> Outbox:
    """Return the outbox of a store's decisions.

    Raises:
        SettingsError: no Kafka broker is configured.
        SecretKeyError: the secret that signs cannot be used.
    """
    config = KafkaSettings.from_env(home).config()
    return Outbox(store, KafkaTopic(SignedTopic.of_home(home, "control"), config))


def open_flow(
    home: Home, store: ReleaseStore, client: httpx.Client, *, model: str, actor: str
) -> ReleaseFlow:
    """Return the release flow of a running stack.

    Decisions are published when a Kafka broker is configured; otherwise they stay in the store.

    Raises:
        ControlError: the operator's key cannot be read, so the stack was never started.
        SecretKeyError: a broker is configured, and the secret that signs cannot be used.
    """

    def registered(of_model: str, version: str) -> str | None:
        known = store.state(line_name(of_model)).versions.get(version)
        return None if known is None else known.weights_sha256

    try:
        outbox = decisions_outbox(home, store)
    except SettingsError:
        outbox = None
    try:
        key = home.operator_key_file.read_text("utf-8").strip()
    except OSError as error:
        raise ControlError(
            f"cannot read the operator's key ({error}); start the stack with `atdp up`"
        ) from error
    return ReleaseFlow(
        model=model,
        store=store,
        fleet=HttpFleet(
            client,
            home.endpoints,
            home.weights,
            registered=registered,
            token=load_engine_token(home),
        ),
        router=HttpRouter(client, home.endpoints, key),
        weights=home.weights,
        actor=actor,
        outbox=outbox,
    )
