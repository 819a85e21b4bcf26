//! The Python interface of the load balancer: `_native.EjfatPipeline` and `_native.EjfatPort`.

use std::os::fd::RawFd;
use std::sync::Arc;

use ejfat::counters::{Counters, Lb};
use ejfat::drops::DROP_NAMES;
use ejfat::pipeline::{Outcome, process};
use ejfat::port::{Medium, Port};
use ejfat::shared::Shared;
use ejfat::tables::Row;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};

use crate::carrier::Carrier;
use crate::counts::tally_dict;

/// Key values, the bits of them that count, action, arguments.
type RowArgs = (Vec<u128>, Vec<u128>, String, Vec<u128>);

#[pyclass(frozen)]
pub struct EjfatPipeline {
    pub shared: Arc<Shared>,
}

fn lb_dict<'py>(py: Python<'py>, lb: &Lb) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("rx_packets", lb.rx_packets)?;
    dict.set_item("rx_bytes", lb.rx_bytes)?;
    dict.set_item("by_version", lb.by_version.to_vec())?;
    dict.set_item("last_tick", lb.last_tick)?;
    dict.set_item("max_tick", lb.max_tick)?;
    dict.set_item("drops", tally_dict(py, &DROP_NAMES, &lb.drops)?)?;
    Ok(dict)
}

fn counters_dict<'py>(py: Python<'py>, counters: &Counters) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("rx_packets", counters.rx_packets)?;
    dict.set_item("rx_bytes", counters.rx_bytes)?;
    dict.set_item("tx_packets", counters.tx_packets)?;
    dict.set_item("tx_bytes", counters.tx_bytes)?;
    dict.set_item("drops", tally_dict(py, &DROP_NAMES, &counters.drops)?)?;
    let lbs = PyDict::new(py);
    for (index, lb) in counters.lbs.iter().enumerate().filter(|(_, lb)| lb.rx_packets != 0) {
        lbs.set_item(index, lb_dict(py, lb)?)?;
    }
    dict.set_item("lbs", lbs)?;
    let members = PyDict::new(py);
    for (member, counts) in &counters.members {
        members.set_item(member, counts)?;
    }
    dict.set_item("members", members)?;
    Ok(dict)
}

#[pymethods]
impl EjfatPipeline {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(EjfatPipeline { shared: Shared::new()? })
    }

    /// Change tables, all at once: each with its rows in the place of all it had, or only with these changed.
    fn set_tables(&self, py: Python<'_>, tables: Vec<(String, bool, Vec<RowArgs>)>) -> PyResult<()> {
        let before = py.detach(|| Arc::clone(&self.shared.lock().tables));
        let mut snapshot = (*before).clone();
        for (name, anew, rows) in tables {
            let rows: Vec<Row> = rows
                .into_iter()
                .map(|(values, masks, action, args)| Row { values, masks, action, args })
                .collect();
            snapshot.set(&name, &rows, anew).map_err(PyValueError::new_err)?;
        }
        py.detach(|| self.shared.lock().tables = Arc::new(snapshot));
        Ok(())
    }

    /// Say what a control plane adds: the ports that sync messages come to (from, and one past the last), and
    /// whether instance 0's source filter holds for version 1.
    fn serve(&self, py: Python<'_>, first: u32, end: u32, guard_v1: bool) {
        py.detach(|| {
            let work = &mut *self.shared.lock();
            let tables = Arc::make_mut(&mut work.tables);
            tables.sync_ports = first..end;
            tables.guard_v1 = guard_v1;
        });
    }

    /// Take one frame as a thread does: what leaves of it. What is Python's waits in `take_punts`.
    fn take<'py>(&self, py: Python<'py>, frame: &[u8]) -> Option<Bound<'py, PyBytes>> {
        let mut buffer = frame.to_vec();
        let range = py.detach(|| self.shared.lock().take(&mut buffer))?;
        Some(PyBytes::new(py, &buffer[range]))
    }

    /// Run one frame: the frame that leaves, the number of a drop, or None where it is Python's.
    fn process<'py>(&self, py: Python<'py>, frame: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let mut buffer = frame.to_vec();
        let outcome = py.detach(|| {
            let work = &mut *self.shared.lock();
            process(&work.tables, &mut work.counters, &mut buffer)
        });
        Ok(match outcome {
            Outcome::Forward(range) => PyBytes::new(py, &buffer[range]).into_any(),
            Outcome::Dropped(reason) => (reason as usize).into_pyobject(py)?.into_any(),
            Outcome::Punt => py.None().into_bound(py),
        })
    }

    /// Run many frames without the GIL: what leaves of each (None: nothing), and the indexes of Python's.
    fn batch<'py>(
        &self,
        py: Python<'py>,
        frames: Vec<PyBackedBytes>,
    ) -> (Vec<Option<Bound<'py, PyBytes>>>, Vec<usize>) {
        let total = frames.iter().map(|frame| frame.len()).sum();
        let (mut arena, mut outcomes) = (Vec::with_capacity(total), Vec::with_capacity(frames.len()));
        py.detach(|| {
            let work = &mut *self.shared.lock();
            for frame in &frames {
                let start = arena.len();
                arena.extend_from_slice(frame);
                let outcome = process(&work.tables, &mut work.counters, &mut arena[start..]);
                outcomes.push((start, outcome));
            }
        });
        let mut punts = Vec::new();
        let out = outcomes.into_iter().enumerate().map(|(index, (start, outcome))| match outcome {
            Outcome::Forward(range) => Some(PyBytes::new(py, &arena[start..][range])),
            Outcome::Dropped(_) => None,
            Outcome::Punt => {
                punts.push(index);
                None
            }
        });
        (out.collect(), punts)
    }

    /// Run frames again and again, as a thread would that reads them into a buffer; return how many left.
    fn repeat(&self, py: Python<'_>, frames: Vec<PyBackedBytes>, times: usize) -> u64 {
        py.detach(|| {
            let mut buffer = vec![0u8; frames.iter().map(|frame| frame.len()).max().unwrap_or(0)];
            let mut left = 0;
            for _ in 0..times {
                let work = &mut *self.shared.lock();
                for frame in &frames {
                    let buffer = &mut buffer[..frame.len()];
                    buffer.copy_from_slice(frame);
                    let outcome = process(&work.tables, &mut work.counters, buffer);
                    left += u64::from(matches!(outcome, Outcome::Forward(_)));
                }
            }
            left
        })
    }

    /// Process the frames of a vport of a datapath, in place of a device, and send from it.
    fn attach(&self, py: Python<'_>, carrier: &Carrier, vport: usize) -> PyResult<()> {
        carrier.attach(py, vport, Arc::clone(&self.shared) as _)
    }

    /// Take what was counted since the last time.
    fn collect<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let taken = py.detach(|| std::mem::take(&mut self.shared.lock().counters));
        counters_dict(py, &taken)
    }

    #[getter]
    fn notice_fd(&self) -> RawFd {
        self.shared.notice.fd()
    }

    /// Take the frames that a thread left to Python.
    fn take_punts<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        self.shared.notice.clear();
        let taken = py.detach(|| std::mem::take(&mut self.shared.lock().punts));
        taken.iter().map(|frame| PyBytes::new(py, frame)).collect()
    }
}

#[pyclass(frozen)]
pub struct EjfatPort {
    port: Port,
    pipeline: Arc<Shared>,
}

#[pymethods]
impl EjfatPort {
    /// `medium` is "tap" or "packet"; the descriptor stays the caller's, a copy of it is used.
    #[new]
    fn new(pipeline: &EjfatPipeline, fd: RawFd, medium: &str) -> PyResult<Self> {
        let medium = match medium {
            "tap" => Medium::Tap,
            "packet" => Medium::Packet,
            _ => return Err(PyValueError::new_err(format!("medium {medium:?}, expected tap or packet"))),
        };
        let fd = tap::duplicate(fd).map_err(PyOSError::new_err)?;
        let shared = Arc::clone(&pipeline.shared);
        Ok(EjfatPort { port: Port::new(Arc::clone(&shared), fd, medium)?, pipeline: shared })
    }

    fn start(&self) -> PyResult<()> {
        Ok(self.port.start()?)
    }

    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.port.stop());
    }

    fn pause(&self, py: Python<'_>) {
        py.detach(|| self.pipeline.pause(true));
    }

    fn resume(&self, py: Python<'_>) {
        py.detach(|| self.pipeline.pause(false));
    }

    #[getter]
    fn lost(&self) -> u64 {
        self.port.lost()
    }

    #[getter]
    fn failure(&self) -> Option<String> {
        self.port.failure()
    }
}
