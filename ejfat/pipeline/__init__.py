"""The load balancer's data plane as pure functions: an Ethernet frame in, a frame or a named drop out."""

from ejfat.pipeline.packet import Verdict
from ejfat.pipeline.switchboard import Pipeline

__all__ = ["Pipeline", "Verdict"]
