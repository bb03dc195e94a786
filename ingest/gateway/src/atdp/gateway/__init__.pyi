from .app import OpenLog as OpenLog, create_app as create_app
from .errors import GatewayError as GatewayError
from .settings import GatewaySettings as GatewaySettings
