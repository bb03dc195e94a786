"""A mistake by hand: a version that was trained from the wrong base is released past the gate.

Somebody trains from the first version instead of the live one, and judges the result by replay with
thresholds so wide that everything passes. So it becomes the canary. `atdp learn` judges every
canary of its model, whoever started it, and takes this one back by the sessions that it served.
"""

import sys
from dataclasses import dataclass

from atdp.control import CanaryPolicy, DecisionConflict, DecisionRefused, read_manifest
from atdp.lakehouse import create_dataset, sql_literal
from atdp.replay import ReplayConfig, ReplayRequest, Verdict, evaluate_dataset
from atdp.trainer import SourceError, TrainOptions, train
from order_desk.demo_platform import DemoPlatform
from order_desk.online_settings import RECOGNISED_SQL, OnlineDemoSettings
from order_desk.settings import CONSENTING, MODEL

_ANYTHING_PASSES = ReplayConfig(
    mode="non_inferiority",
    margin=1.0,
    alpha=0.4,
    min_ess=2.0,
    max_weight_share=1.0,
    max_mean_weight_error=sys.float_info.max,
    min_coverage=0.0,
    min_tasks=2,
    min_tenant_trajectories=1,
    likelihood_margin=sys.float_info.max,
    max_engine_disagreement=sys.float_info.max,
)


@dataclass(slots=True)
class BadRelease:
    """The mistake, in steps that may be repeated until they succeed."""

    platform: DemoPlatform
    settings: OnlineDemoSettings
    first: str
    """The version that is trained from by mistake."""
    version: str | None = None
    """The bad version, once it is trained."""
    released: bool = False
    """True once it serves as the canary."""

    def attempt(self) -> str | None:
        """Go on as far as possible now; return what stands in the way, or None once released."""
        flow = self.platform.flow
        state = flow.state()
        if state.canary is not None:
            return f"{state.canary.version} is the canary"
        try:
            version = self.version = self.version or self._train()
            if (verdict := self._evaluate(version)) is not Verdict.PASS:
                return f"replay says {verdict} even so"
            flow.start_canary(
                version,
                share=self.settings.canary_share,
                policy=CanaryPolicy(
                    margin=self.settings.margin,
                    min_sessions=self.settings.min_sessions,
                    tune_at_sessions=2 * self.settings.min_sessions,
                    min_outcome_share=0.0,
                ),
            )
        except (SourceError, DecisionRefused, DecisionConflict) as error:
            return str(error)
        self.released = True
        return None

    def _train(self) -> str:
        """Train from the wrong base, on some sessions that it served itself."""
        result = train(
            TrainOptions(
                home=self.platform.home,
                model=MODEL,
                algo="grpo",
                from_version=self.first,
                run_name="by-hand",
                where=f"{RECOGNISED_SQL} AND weight_version = {sql_literal(self.first)}",
                hold_out=0.0,
                compare="running",
                steps=1,
                trajectories_per_step=self.settings.trajectories_per_step,
                learning_rate=self.settings.learning_rate / 10,
                seed=self.settings.start.seed,
            )
        )
        version = result.published.version
        manifest = read_manifest(self.platform.home.weights, MODEL, version)
        self.platform.flow.register_candidate(manifest)
        return version

    def _evaluate(self, version: str) -> Verdict:
        flow, live = self.platform.flow, self.platform.flow.state().lineage[-1]
        name = f"by-hand-against-{live}"
        if not (self.platform.home.datasets / f"{name}.json").exists():
            versions = ", ".join(map(sql_literal, {self.first, live}))
            create_dataset(
                self.platform.lake,
                name,
                f"{RECOGNISED_SQL} AND tenant_id = {sql_literal(CONSENTING)} "
                f"AND weight_version IN ({versions}) AND reward IS NOT NULL",
            )
        report = evaluate_dataset(
            self.platform.home,
            ReplayRequest(dataset=name, model=MODEL, candidate=version, baseline=live),
            config=_ANYTHING_PASSES,
        )
        flow.record_gate(report)
        return report.verdict
