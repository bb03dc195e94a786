"""Real documents of other projects, where they are at hand; they are no part of the project."""

from pathlib import Path

SHARED = Path(__file__).parents[4] / "shared" / "data"
ATIF = sorted((SHARED / "atif_trajectories").glob("*.json"))
LANGFUSE = sorted((SHARED / "langfuse_framework_traces").glob("*.trace.json"))
