"""The settings of property tests, a plugin for runs without the conftest of this folder.

The time of an example depends on the machine and not on the code, so there is no deadline.
Automated runs draw the same examples every time, so that a failure is caused by the change under
test. Runs by hand draw new examples.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "atdp",
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
        HealthCheck.function_scoped_fixture,
    ],
    derandomize="CI" in os.environ,
)
settings.load_profile("atdp")
