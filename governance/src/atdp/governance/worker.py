"""`python -m atdp.governance.worker --home DIR --port N`: the gate as a process.

Starts, waits for the broker and the topics, then governs until SIGTERM; the transaction in hand is
finished first. Ends with 1 when another worker has taken over, or when the home's own state
(secrets) cannot be used.
"""

import argparse
import logging
import time
from collections.abc import Sequence

from atdp.governance.errors import GovernanceError
from atdp.governance.fidelity import TokenizerFolder
from atdp.governance.gate import Gate, utc_now
from atdp.governance.master_secret import load_master_secret
from atdp.governance.policy.store import PolicyStore, install_default_policy
from atdp.governance.stage.loop import Stage
from atdp.governance.stage.metrics import StageMetrics
from atdp.governance.stage.settings import StageSettings
from atdp.governance.stage.transaction import Fenced, KafkaTransaction, TransactionStuck
from atdp.runtime import Home, KafkaSettings, KeyStore, PlatformError, Service

_log = logging.getLogger("atdp.governance")
_RETRY_S = 0.5
_HUNG_S = 300.0
"""Longer than any transaction that still has a chance: its calls give up by themselves after 120 s
each."""


def build_gate(home: Home) -> Gate:
    """The gate of a home: its keys, policies (the default ones at the first start), secret and tokenizers.

    Raises:
        SecretsError, KeyStoreError: the home cannot be used.
    """
    install_default_policy(home.policies)
    return Gate(
        keys=KeyStore(home.keys_db).get,
        policies=PolicyStore(home.policies),
        secret=load_master_secret(home.governance_secret_file),
        tokenizers=TokenizerFolder(home.tokenizers),
    )


def run(service: Service, settings: StageSettings, stage: Stage) -> None:
    """Govern until the service is told to stop.

    Raises:
        Fenced, TransactionStuck: this process must end.
    """
    while not service.stop.is_set():
        try:
            stage.start()
            break
        except (Fenced, TransactionStuck):
            raise
        except GovernanceError as error:
            # The broker or its topics are not there yet: wait, visibly.
            service.health.not_ready(str(error))
            service.stop.wait(_RETRY_S)
    beat = time.monotonic()

    def alive() -> str | None:
        idle_s = time.monotonic() - beat
        return (
            None if idle_s < _HUNG_S else f"one transaction has been under way for {idle_s:.0f} s"
        )

    service.health.add_live_check("loop", alive)
    service.health.ready()
    _log.info("governing", extra={"topic": settings.topic("events_raw")})
    while not service.stop.is_set():
        stage.step()
        beat = time.monotonic()
    stage.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit status."""
    service = Service.start("governance", argv, options=_options, description=__doc__)
    try:
        settings = StageSettings(
            kafka=KafkaSettings.from_env(service.home), topic_prefix=service.options.topic_prefix
        )
        gate = build_gate(service.home)
        with service.serving():
            stage = Stage(
                settings,
                gate,
                KafkaTransaction(settings),
                StageMetrics(service.health.registry),
                now=utc_now,
                on_state=lambda why: (
                    service.health.ready() if why is None else service.health.not_ready(why)
                ),
            )
            run(service, settings, stage)
    except (GovernanceError, PlatformError) as error:
        _log.error("stopped: %s", error)
        return 1
    return 0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--topic-prefix", default="", help="put before topic names, group and transactional id"
    )


if __name__ == "__main__":
    raise SystemExit(main())
