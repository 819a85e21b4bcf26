"""The load balancer's data plane as pure functions: an Ethernet frame in, a frame or a named drop out."""

from ejfat.pipeline.switchboard import Pipeline
from ejfat.pipeline.verdict import Verdict

__all__ = ["Pipeline", "Verdict"]
