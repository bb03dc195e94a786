"""The ids under which a person's events may have been sent."""

from atdp.gateway import end_user_id
from atdp.runtime import Home, load_secret_key


def sent_ids_of_person(home: Home, tenant: str, name: str) -> tuple[str, ...]:
    """Return the id that an agent sends for a person, and the one that the proxy sends.

    Raises:
        SettingsError: the proxy's secret cannot be used.
    """
    secret = load_secret_key(home.recognition_secret_file, if_lost="end users get other pseudonyms")
    return (name, end_user_id(secret, tenant, name) or name)
