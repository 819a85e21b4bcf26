"""The load balancer's data plane as pure functions: an Ethernet frame in, a frame or a named drop out."""

from ejfat.pipeline.native import Pipeline
from ejfat.pipeline.packet import Verdict

__all__ = ["Pipeline", "Verdict"]
