"""An engine that native threads drive in real time, beside the event loop of its programs in Python.

carrier = native_carrier()
fabric = Fabric(loop, engine=carrier_engine(carrier), driver=ThreadedDriver)
carrier.start()
loop.add_reader(carrier.notice_fd, fabric.driver.run)

What Python does to such an engine happens under the locks of the threads, at the time that their clock says. That clock
is the one of event loops. The event loop waits for no event of the fabric: the threads do, and make the notice
descriptor readable when there is something for Python. Until they are started, and once they have ended, the engine
does what is due whenever Python calls it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from hfi_sim.base.clock import NS_PER_S, Clock
from hfi_sim.base.counters import Drop
from hfi_sim.engine.api import Engine, EngineFactory
from hfi_sim.engine.events.outputs import Output, PortId
from opavnic.base.errors import DatapathUnavailableError
from opavnic.datapath.selection import load_native, why_not_native
from opavnic.engine.native import DROPS, NativeEngine

if TYPE_CHECKING:
    from opavnic import _native


def native_carrier(
    *, icrc_always: bool = False, merge: bool = True, workers: int = 1, ports_per_host: int = 1
) -> _native.Carrier:
    """Return a carrier: an engine, native VNICs on its ports, and threads, which are not started.

    Args:    icrc_always: compute and check the ICRC of each packet of native VNICs, not only of those
             whose ICRC can be seen. merge: merge the segments they receive.
             workers: threads, over which ports are spread. ports_per_host: so many in a row go to one of them.
    Raises:  DatapathUnavailableError: the native module is not built.
    """
    module = load_native()
    if module is None:
        raise DatapathUnavailableError(why_not_native())
    carrier: _native.Carrier = module.Carrier(
        DROPS, icrc_always=icrc_always, merge=merge, workers=workers, ports_per_host=ports_per_host
    )
    return carrier


def carrier_engine(carrier: _native.Carrier) -> EngineFactory:
    """Return what makes the engine of a fabric out of that of a carrier, which serves one fabric."""
    return partial(NativeEngine, carrier=carrier)


class ThreadedDriver:
    """Gives an engine that threads drive the inputs of Python, and hands its outputs out."""

    def __init__(
        self, engine: Engine, clock: Clock, timer_resolution_s: float, dispatch: Callable[[Output], None]
    ) -> None:
        """Start with nothing due. Args: timer_resolution_s: ignored, threads are precise; dispatch: takes outputs."""
        self.engine = engine
        self._clock = clock
        self._dispatch = dispatch
        self._running = False
        self._outputs: deque[Output] = deque()
        """Taken from the engine, and not handed out yet."""

    @property
    def now(self) -> int:
        """Now, in nanoseconds on the clock; while threads run, theirs counts."""
        return round(self._clock.time() * NS_PER_S)

    def send(self, port: PortId, data: bytes) -> Drop | None:
        """Send what may be a packet from an HFI port, as `Engine.send`."""
        return self.engine.send(self.now, port, data)

    def inject(self, port: PortId, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        """Send a packet from an HFI port, as `Engine.inject`."""
        return self.engine.inject(self.now, port, packet, slid, dlid, pkey)

    def burst(self) -> AbstractContextManager[object]:
        """Do nothing: what is sent goes on its way at once, in threads."""
        return nullcontext()

    def run(self) -> None:
        """Hand out what waits; harmless when called from inside that."""
        if self._running:
            return
        self._running = True
        try:
            self._outputs.extend(self.engine.step(self.now))
            while self._outputs:
                self._dispatch(self._outputs.popleft())
        finally:
            self._running = False

    def count(self) -> None:
        """Bring the counters up to date, with all that is due by now."""
        self.engine.handle_timeout(self.now)
        self.engine.count()

    def run_soon(self) -> None:
        """Do nothing: the notice descriptor says when there is something to hand out."""
