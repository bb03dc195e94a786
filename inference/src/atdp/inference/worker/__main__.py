"""`python -m atdp.inference.worker`: run one worker as a service of the stack."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Run one worker; return 2 when the model cannot be served."""
    # Read when NumPy is loaded. On models of this size more than one thread is slower.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    from atdp.inference.errors import ModelError
    from atdp.inference.worker.app import create_app
    from atdp.inference.worker.engine_metrics import EngineMetrics
    from atdp.inference.worker.worker_state import WorkerOptions
    from atdp.runtime import Service, add_health_routes, run_http

    service = Service.start("inference-0", argv, options=_options, description=__doc__)
    chosen = service.options
    options = WorkerOptions(
        model_dir=chosen.model_dir,
        weight_version=chosen.weight_version,
        decoder=chosen.decoder,
        device=chosen.device,
        max_rows=chosen.max_rows,
        seed=chosen.seed,
        state_file=service.home.run / f"{service.name}.weights.json",
    )
    try:
        app = create_app(options)
    except ModelError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    engine = app.state.worker.engine
    service.health.registry.register(EngineMetrics(engine.counters, lambda: engine.served_version))
    service.health.add_ready_check("model", lambda: None if engine.loaded else "no model loaded")
    add_health_routes(app, service.health)
    service.health.ready()
    run_http(service, app)
    return 0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model-dir", type=Path, help="model directory to serve from the start (default: none)"
    )
    parser.add_argument("--weight-version", help="its version (default: from its manifest)")
    parser.add_argument(
        "--decoder",
        choices=("auto", "light", "transformers"),
        default="auto",
        help="implementation of the model (default auto)",
    )
    parser.add_argument("--device", default="cpu", help="torch device of the transformers decoder")
    parser.add_argument(
        "--max-rows", type=int, default=64, help="sequences decoded together (default 64)"
    )
    parser.add_argument("--seed", type=int, help="seed of the draws (default: from the system)")


if __name__ == "__main__":
    sys.exit(main())
