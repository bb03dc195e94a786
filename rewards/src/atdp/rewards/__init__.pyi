from .derivation import DerivedReward as DerivedReward, derive_rewards as derive_rewards
from .errors import (
    EmissionFailed as EmissionFailed,
    RewardError as RewardError,
    RulesError as RulesError,
)
from .evidence import (
    JUDGE_PREFIX as JUDGE_PREFIX,
    Attempt as Attempt,
    AttemptEvidence as AttemptEvidence,
    End as End,
    JudgeScore as JudgeScore,
    ObservedReward as ObservedReward,
    Rating as Rating,
    Target as Target,
    ToolResult as ToolResult,
)
from .reward_events import SOURCE_NAME as SOURCE_NAME
from .rewarder import Rewarder as Rewarder
from .rules_file import (
    DEFAULT_RULES as DEFAULT_RULES,
    RewardRules as RewardRules,
    parse_rules as parse_rules,
)
from .rules_store import RulesStore as RulesStore
