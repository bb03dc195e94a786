from .desk.first_policy import install_first_policy as install_first_policy
from .desk.new_policy import new_policy_text as new_policy_text
from .desk.policies_api import policy_router as policy_router
from .desk.policy_change import PolicyChange as PolicyChange
from .desk.policy_checks import PolicyChecks as PolicyChecks, PolicyTest as PolicyTest
from .desk.policy_choice import ContentChoice as ContentChoice
from .desk.policy_desk import PolicyDesk as PolicyDesk
from .desk.policy_diff import policy_changes as policy_changes, text_diff as text_diff
from .desk.policy_text import PolicyText as PolicyText
from .desk.policy_views import PolicyVersionDetails as PolicyVersionDetails
from .errors import (
    DetectorError as DetectorError,
    GovernanceError as GovernanceError,
    PolicyDecisionDenied as PolicyDecisionDenied,
    PolicyError as PolicyError,
    PolicyUnknown as PolicyUnknown,
    PreviewError as PreviewError,
    Refusal as Refusal,
    SecretsError as SecretsError,
    UnreadableLabels as UnreadableLabels,
)
from .evaluation.labelled_texts import read_labelled_texts as read_labelled_texts
from .evaluation.policy_evaluation import (
    evaluate_policy as evaluate_policy,
    read_policy as read_policy,
)
from .evaluation.recall_floor import RecallResult as RecallResult, measure_recall as measure_recall
from .governed_identifiers import GovernedIdentifiers as GovernedIdentifiers
from .home_secrets import open_secrets as open_secrets
from .key_rotation import (
    KeyRotation as KeyRotation,
    MasterKeyUse as MasterKeyUse,
    master_key_uses as master_key_uses,
    remove_master_key as remove_master_key,
    rotate_master_key as rotate_master_key,
)
from .payload_keys import destroy_payload_keys as destroy_payload_keys
from .policy.default_policy import default_policy_text as default_policy_text
from .policy.document import PolicyDocument as PolicyDocument, parse_policy as parse_policy
from .policy.json_schema import policy_schema_text as policy_schema_text
from .policy.lint import LintProblem as LintProblem, lint_policy as lint_policy
from .policy.rule_packs import PACK_NAMES as PACK_NAMES, pack_text as pack_text
from .policy.templates import TEMPLATES as TEMPLATES, template_text as template_text
from .policy_examples.example_runs import (
    PolicyTestResult as PolicyTestResult,
    run_policy_tests as run_policy_tests,
)
from .preview.decided import (
    DecidedPolicies as DecidedPolicies,
    preview_document as preview_document,
)
from .preview.report import (
    PreviewReport as PreviewReport,
    SampleComparison as SampleComparison,
)
from .preview.report_page import (
    render_preview_page as render_preview_page,
    share_text as share_text,
)
from .preview.request import (
    PreviewPlace as PreviewPlace,
    PreviewRequest as PreviewRequest,
    preview_policy as preview_policy,
)
from .preview.samples import (
    SAMPLE_SOURCES as SAMPLE_SOURCES,
    SampleSource as SampleSource,
    SampleWindow as SampleWindow,
)
from .release.order import (
    BadPlace as BadPlace,
    QuarantineOrder as QuarantineOrder,
    QuarantinePlace as QuarantinePlace,
)
from .release.order_log import OrdersNotSent as OrdersNotSent, send_orders as send_orders
from .stage.inspection import (
    RecordGone as RecordGone,
    open_payload as open_payload,
    read_quarantined as read_quarantined,
)
from .stage.settings import GOVERNANCE_GROUP as GOVERNANCE_GROUP, StageSettings as StageSettings
from .tenant_keys import TenantKeyStore as TenantKeyStore
from .wrapped_keys import WrappedKeys as WrappedKeys
