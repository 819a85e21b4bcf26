"""Property tests here run beside other builds: a slow example is no failure."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")
