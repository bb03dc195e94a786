from .cassette.cassette_replay import replay_cassettes as replay_cassettes
from .cassette.cassette_settings import (
    CassetteSettings as CassetteSettings,
    read_cassette_settings as read_cassette_settings,
)
from .cassette.counterfactual import Counterfactual as Counterfactual
from .cassette.recording_report import (
    RecordingReport as RecordingReport,
    write_recording_report as write_recording_report,
)
from .cassette.replay_session import RecordingRequest as RecordingRequest
from .cassette.teacher_replay import force_recordings as force_recordings
from .config import ReplayConfig as ReplayConfig
from .dataset import PinnedDataset as PinnedDataset
from .dataset_evaluation import (
    ReplayRequest as ReplayRequest,
    evaluate_dataset as evaluate_dataset,
    write_report as write_report,
)
from .errors import (
    ConfigError as ConfigError,
    LineageError as LineageError,
    NoEngineError as NoEngineError,
    ReplayDataError as ReplayDataError,
    ReplayError as ReplayError,
    ScoringError as ScoringError,
    WeightsError as WeightsError,
)
from .report import ReplayReport as ReplayReport
from .report_json import rounded_canonical_json as rounded_canonical_json
from .run import PolicyVersion as PolicyVersion, replay as replay
from .settings_file import parse_settings as parse_settings, read_config as read_config
from .verdict import Reason as Reason, Verdict as Verdict
from .weights import weights_sha256 as weights_sha256
