from .errors import SourceError as SourceError, TrainerError as TrainerError
from .model_shape import ModelShape as ModelShape
from .options import TrainOptions as TrainOptions, TrainResult as TrainResult
from .rating_comparison import RatingComparison as RatingComparison
from .registry import (
    Published as Published,
    WeightRegistry as WeightRegistry,
    check_name as check_name,
)
from .reward_comparison import RewardComparison as RewardComparison
from .training import train as train
from .trajectory import TrajectoryKey as TrajectoryKey
