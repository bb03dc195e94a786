"""Address and security settings of the Kafka broker, for every process of the stack.

`ATDP_KAFKA_BOOTSTRAP` (with the security settings) names an existing cluster. Without it, the
broker is the one whose address the supervisor of this home has published.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from atdp.runtime.errors import SettingsError
from atdp.runtime.home import Home

KafkaValue = str | int | float | bool

# librdkafka 2.16 forgets all brokers when none answers, and starts again from the bootstrap list
# (KIP-899). A request to a coordinator that is under way at that moment never finishes:
# send_offsets_to_transaction does not return, whatever its time-out is. This was seen when a single
# broker was killed and started again. With the strategy "none" the client reconnects. Test again
# with a newer librdkafka whether the setting can be removed.
_KEEP_BROKERS: Mapping[str, KafkaValue] = {"metadata.recovery.strategy": "none"}

# Environment variable → librdkafka property.
_SECURITY = {
    "ATDP_KAFKA_SECURITY_PROTOCOL": "security.protocol",
    "ATDP_KAFKA_SASL_MECHANISM": "sasl.mechanism",
    "ATDP_KAFKA_SASL_USERNAME": "sasl.username",
    "ATDP_KAFKA_SASL_PASSWORD": "sasl.password",
    "ATDP_KAFKA_SSL_CA": "ssl.ca.location",
}


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Bootstrap servers (`host:port,…`) and further librdkafka properties (security)."""

    bootstrap: str
    extra: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_env(cls, home: Home | None = None, environ: Mapping[str, str] | None = None) -> Self:
        """Return the settings of the environment, else of the running stack of `home`.

        Raises:
            SettingsError: neither names a broker.
        """
        env = os.environ if environ is None else environ
        extra = {name: env[variable] for variable, name in _SECURITY.items() if env.get(variable)}
        if bootstrap := env.get("ATDP_KAFKA_BOOTSTRAP"):
            return cls(bootstrap, extra)
        home = home or Home.from_env(env)
        if bootstrap := home.endpoints().get("kafka"):
            return cls(bootstrap, extra)
        raise SettingsError(
            "no Kafka broker is known: "
            f"{home.endpoints_file} names none and ATDP_KAFKA_BOOTSTRAP is not set; "
            "start the local stack with `atdp up`, or set ATDP_KAFKA_BOOTSTRAP=host:port"
        )

    def config(self, **overrides: KafkaValue) -> dict[str, KafkaValue]:
        """Return the properties of a confluent-kafka client.

        `group_id=…` and `**{"group.id": …}` mean the same. Callback properties are not values: add
        them to the returned dictionary.
        """
        merged: dict[str, KafkaValue] = {
            "bootstrap.servers": self.bootstrap,
            **_KEEP_BROKERS,
            **self.extra,
        }
        merged.update({name.replace("_", "."): value for name, value in overrides.items()})
        return merged
