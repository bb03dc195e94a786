from .errors import (
    DetectorError as DetectorError,
    GovernanceError as GovernanceError,
    PolicyError as PolicyError,
    Refusal as Refusal,
    SecretsError as SecretsError,
    UnreadableLabels as UnreadableLabels,
)
from .evaluation.labelled_texts import read_labelled_texts as read_labelled_texts
from .evaluation.policy_evaluation import (
    evaluate_policy as evaluate_policy,
    read_policy as read_policy,
)
from .master_secret import load_master_secret as load_master_secret
from .policy.document import PolicyDocument as PolicyDocument, parse_policy as parse_policy
from .policy.store import (
    install_default_policy as install_default_policy,
    set_consent as set_consent,
)
from .stage.settings import GOVERNANCE_GROUP as GOVERNANCE_GROUP
from .tenant_keys import TenantKeyStore as TenantKeyStore
