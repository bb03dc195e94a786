from .counting import Look as Look, look_at_canary as look_at_canary
from .effects import (
    CanaryRoute as CanaryRoute,
    Fleet as Fleet,
    Router as Router,
    RouteTable as RouteTable,
    desired as desired,
)
from .errors import (
    Conflict as Conflict,
    EffectFailed as EffectFailed,
    EngineSilent as EngineSilent,
    PublishFailed as PublishFailed,
    Refused as Refused,
    ReleaseError as ReleaseError,
    StoreError as StoreError,
)
from .events import Decided as Decided
from .flow import ReleaseFlow as ReleaseFlow
from .history_text import as_json as as_json, chapter as chapter
from .judge import (
    CanaryCounts as CanaryCounts,
    CanaryPolicy as CanaryPolicy,
    Judgement as Judgement,
)
from .manifest import Manifest as Manifest, read_manifest as read_manifest
from .opening import open_flow as open_flow
from .state import Line as Line, Stage as Stage
from .store import FILE_NAME as FILE_NAME, ReleaseStore as ReleaseStore, line_of as line_of
