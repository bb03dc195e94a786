from .digests import file_sha256 as file_sha256
from .durable_files import (
    clear_directory as clear_directory,
    sync_directory as sync_directory,
    sync_tree as sync_tree,
    write_durably as write_durably,
)
from .errors import (
    KeyStoreError as KeyStoreError,
    PlatformError as PlatformError,
    SettingsError as SettingsError,
)
from .file_locks import locked as locked, try_lock as try_lock
from .home import Home as Home
from .kafka_settings import KafkaSettings as KafkaSettings, KafkaValue as KafkaValue
from .keys.principals import ANY_TENANT as ANY_TENANT, Principal as Principal
from .keys.store import KeyStore as KeyStore, StoredKey as StoredKey
from .keys.tenants import UNKNOWN_TENANT as UNKNOWN_TENANT, tenant_problem as tenant_problem
from .service import add_health_routes as add_health_routes, run_http as run_http
from .service.authentication import (
    Caller as Caller,
    authenticate as authenticate,
    tenant_of as tenant_of,
)
from .service.health import Health as Health
from .service.logs import JsonFormatter as JsonFormatter, setup_logging as setup_logging
from .service.problems import (
    Problem as Problem,
    problem_response as problem_response,
    unavailable as unavailable,
)
from .service.process import Service as Service
