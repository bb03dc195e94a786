from .access_decision import AccessDecision as AccessDecision
from .actions import RESTRICTED_ACTIONS as RESTRICTED_ACTIONS, Action as Action
from .consent import (
    CONSENT as CONSENT,
    USE_PURPOSES as USE_PURPOSES,
    ConsentDecision as ConsentDecision,
    UsePurpose as UsePurpose,
)
from .data_resource import (
    NEVER_EXPIRES as NEVER_EXPIRES,
    DataResource as DataResource,
    TenantData as TenantData,
)
from .errors import (
    AccessError as AccessError,
    ConsentError as ConsentError,
    RulesUnavailable as RulesUnavailable,
)
from .guards import guard_refusal as guard_refusal
from .rules_source import RegisterRules as RegisterRules, UseRulesSource as UseRulesSource
from .use_rules import (
    Reach as Reach,
    StandingDecision as StandingDecision,
    UsedData as UsedData,
    UseRefusal as UseRefusal,
    UseRules as UseRules,
)
