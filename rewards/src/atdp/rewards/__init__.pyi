from .derivation import DerivedReward as DerivedReward, derive_rewards as derive_rewards
from .errors import (
    EmissionFailed as EmissionFailed,
    RewardError as RewardError,
    RulesError as RulesError,
)
from .evaluators.agreement import Agreement as Agreement, AgreementEstimate as AgreementEstimate
from .evaluators.agreement_reader import read_agreement as read_agreement
from .evaluators.errors import EvaluatorsError as EvaluatorsError
from .evaluators.evaluator_status import (
    EvaluatorStatus as EvaluatorStatus,
    read_status as read_status,
)
from .evaluators.evaluators_store import (
    EvaluatorsStore as EvaluatorsStore,
    evaluators_folder as evaluators_folder,
    read_evaluators as read_evaluators,
)
from .evaluators.journal import (
    EvaluationJournal as EvaluationJournal,
    journal_file as journal_file,
)
from .evidence import (
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
