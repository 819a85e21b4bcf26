//! The ring of a capture as a Python object. The engine fills it under the engine's lock; reading it does not need that
//! lock.

use std::sync::Arc;

use engine::link::capture::{self, CaptureConfig};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::fabric_args::MatchArgs;
use crate::fabric_engine::known;

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CaptureArgs {
    interfaces: u32,
    fits: MatchArgs,
    snap: usize,
    limit: Option<u64>,
    epoch_ns: u64,
    segments: usize,
    segment_bytes: usize,
}

#[pyclass(frozen)]
pub struct CaptureRing {
    ring: Arc<capture::CaptureRing>,
}

impl CaptureRing {
    pub fn shared(&self) -> Arc<capture::CaptureRing> {
        Arc::clone(&self.ring)
    }

    /// Fail unless it has this interface.
    pub fn interface(&self, number: u32) -> PyResult<()> {
        known("interfaces", number, self.ring.interfaces() as usize)
    }
}

#[pymethods]
impl CaptureRing {
    #[new]
    fn new(config: CaptureArgs) -> PyResult<Self> {
        let CaptureArgs { interfaces, fits, snap, limit, epoch_ns, segments, segment_bytes } = config;
        if segments < 2 {
            return Err(PyValueError::new_err(format!("segments is {segments}, expected 2 or more")));
        }
        let fits = fits.build();
        let config = CaptureConfig { interfaces, fits, snap, limit, epoch_ns, segments, segment_bytes };
        Ok(CaptureRing { ring: Arc::new(capture::CaptureRing::new(config)) })
    }

    fn take<'py>(&self, py: Python<'py>, rest: bool) -> Bound<'py, PyBytes> {
        self.ring.take(rest, |bytes| PyBytes::new(py, bytes)).unwrap_or_else(|| PyBytes::new(py, b""))
    }

    fn counts(&self) -> Vec<(u64, u64)> {
        self.ring.counts().iter().map(|count| (count.seen, count.missed)).collect()
    }

    fn totals(&self) -> (u64, u64) {
        self.ring.totals()
    }

    #[getter]
    fn is_complete(&self) -> bool {
        self.ring.is_complete()
    }
}
