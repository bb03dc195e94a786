from .cli.output import print_json as print_json
from .errors import StackError as StackError
from .flow import Lag as Lag, wait_until_read as wait_until_read
from .kafka_log import KafkaLog as KafkaLog
from .ledger import Ledger as Ledger
from .readers import stages as stages
