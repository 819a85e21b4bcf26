//! The gate of a carrier to other machines: packets leave and arrive as bodies of messages. Any thread may use it while
//! another one uses the engine.

use std::sync::Arc;

use engine::crossing::{Records, pack, packed_len, record_bytes};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tap::Signal;
use tap::carrier::Carrier;
use tap::shared::Shared;

use crate::fabric_engine::known;

/// The message, its packets, and the bytes of their records.
type Taken<'py> = (Bound<'py, PyBytes>, u32, usize);

/// Messages up to this many bytes are written without releasing the GIL, which would take longer.
const SHORT: usize = 4096;

#[pyclass(frozen)]
pub struct Gate {
    shared: Arc<Shared>,
}

impl Gate {
    /// Open the gate of a carrier: packets that leave are no outputs any more. `takers`: the directions of each taker.
    pub fn open(py: Python<'_>, shared: Arc<Shared>, takers: &[Vec<u32>]) -> PyResult<Self> {
        py.detach(|| -> std::io::Result<()> {
            shared.departures.open(takers)?;
            shared.each(|carrier| carrier.engine.let_bursts_depart(true));
            Ok(())
        })?;
        Ok(Gate { shared })
    }

    fn signal(&self, taker: usize) -> PyResult<&Signal> {
        self.shared
            .departures
            .signal(taker)
            .ok_or_else(|| PyIndexError::new_err(format!("there is no taker {taker}")))
    }
}

#[pymethods]
impl Gate {
    /// Wait for packets for a taker, or for `wake`; return False after the timeout in seconds (None: no timeout).
    #[pyo3(signature = (taker, timeout_s=None))]
    fn wait(&self, py: Python<'_>, taker: usize, timeout_s: Option<f64>) -> PyResult<bool> {
        let signal = self.signal(taker)?;
        let timeout_ms = timeout_s.map_or(-1, |timeout| (timeout * 1e3).ceil().clamp(0.0, 1e9) as i32);
        Ok(py.detach(|| signal.wait(timeout_ms)))
    }

    fn wake(&self, taker: usize) -> PyResult<()> {
        self.signal(taker)?.raise();
        Ok(())
    }

    fn waiting(&self, taker: usize) -> Vec<(u32, u32)> {
        self.shared.departures.waiting(taker)
    }

    /// Take packets of a service channel, within limits of packets and record bytes, as a message that begins with
    /// `head`.
    fn take<'py>(
        &self,
        py: Python<'py>,
        now: u64,
        lane: (u32, u32),
        head: &[u8],
        packets: u32,
        size: usize,
    ) -> PyResult<Option<Taken<'py>>> {
        let departures = &self.shared.departures;
        let (direction, sc) = lane;
        let most = packets.min(engine::crossing::MOST_PACKETS as u32);
        // only references are moved: releasing and taking the GIL would take longer
        let Some(taken) = departures.take(direction, sc, most, size) else { return Ok(None) };
        let count: u32 = taken.iter().map(|one| one.burst.count()).sum();
        if count == 0 {
            return Ok(Some((PyBytes::new(py, b""), 0, 0)));
        }
        let bytes: usize = taken.iter().map(|one| record_bytes(&one.burst)).sum();
        let len = head.len() + packed_len(count as usize, bytes);
        let message = PyBytes::new_with(py, len, |message| {
            let (before, body) = message.split_at_mut(head.len());
            before.copy_from_slice(head);
            let mut fill = || pack(taken.iter().map(|one| &one.burst), body);
            if len <= SHORT {
                fill()
            } else {
                py.detach(fill)
            }
            Ok(())
        })?;
        let tokens: Vec<_> = taken.iter().filter_map(|one| one.token).collect();
        departures.spend(taken);
        if !tokens.is_empty() {
            py.detach(|| self.release(now, &tokens));
        }
        Ok(Some((message, count, bytes)))
    }

    /// Receive the packets of a message whose body begins at `begin`; return their number, or None: malformed body.
    ///
    /// The calling thread carries them to the hosts of this machine: that takes less time than waking another thread.
    fn arrive(
        &self,
        py: Python<'_>,
        now: u64,
        direction: u32,
        message: &[u8],
        begin: usize,
    ) -> PyResult<Option<usize>> {
        let Some(records) = message.get(begin..).and_then(Records::parse) else { return Ok(None) };
        py.detach(|| {
            let shared = &self.shared;
            let enter = |carrier: &mut Carrier, now| {
                known("directions", direction, carrier.engine.directions())?;
                carrier.engine.cross_all(now, direction, &records);
                Ok(Some(records.count()))
            };
            shared.carry(0, now, enter)
        })
    }

    /// Drop the packets that wait in a direction as lost, because its machine has left.
    fn forget(&self, py: Python<'_>, now: u64, direction: u32) {
        py.detach(|| self.release(now, &self.shared.departures.forget(direction)));
    }

    /// Packets and bytes that left, overflows, lost packets, and packets that wait.
    fn counts(&self, direction: u32) -> (u64, u64, u64, u64, u64) {
        let counts = self.shared.departures.counts(direction);
        (counts.packets, counts.bytes, counts.overflows, counts.forgotten, counts.waiting)
    }
}

impl Gate {
    /// Give back the room that packets occupied at the end of a link with credits.
    fn release(&self, now: u64, tokens: &[u64]) {
        if !tokens.is_empty() {
            self.shared.input(0, now, |carrier, now| {
                tokens.iter().for_each(|token| _ = carrier.engine.release(now, *token));
            });
        }
    }
}
