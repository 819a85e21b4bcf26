//! The Python interface of the load balancer: `_native.EjfatPipeline`, `_native.EjfatPort` and `_native.EjfatReflector`.

use std::os::fd::RawFd;
use std::sync::Arc;

use ejfat::counters::{Counters, LBS, Lb};
use ejfat::drops::DROP_NAMES;
use ejfat::pipeline::{Outcome, process};
use ejfat::port::Port;
use ejfat::reflect::Reflector;
use ejfat::shared::Shared;
use ejfat::station::Station;
use ejfat::tables::Row;
use pyo3::exceptions::PyValueError;
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
    dict.set_item("ahead", lb.ahead)?;
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
        members.set_item(
            member,
            (counts.tx_packets, counts.tx_bytes, counts.soft_evicted, counts.deregistered),
        )?;
    }
    dict.set_item("members", members)?;
    Ok(dict)
}

#[pymethods]
impl EjfatPipeline {
    /// `workers`: threads that a port may have.
    #[new]
    #[pyo3(signature = (workers = 1))]
    fn new(workers: usize) -> PyResult<Self> {
        Ok(EjfatPipeline { shared: Shared::new(workers)? })
    }

    /// Change tables in one step: each gets its rows instead of all it had, or only these rows change.
    fn set_tables(&self, py: Python<'_>, tables: Vec<(String, bool, Vec<RowArgs>)>) -> PyResult<()> {
        let before = py.detach(|| self.shared.tables());
        let mut snapshot = (*before).clone();
        for (name, anew, rows) in tables {
            let rows: Vec<Row> = rows
                .into_iter()
                .map(|(values, masks, action, args)| Row { values, masks, action, args })
                .collect();
            snapshot.set(&name, &rows, anew).map_err(PyValueError::new_err)?;
        }
        py.detach(|| self.shared.set_tables(snapshot));
        Ok(())
    }

    /// Configure the settings of a control plane: the port range of sync messages (first, and one past the last), and
    /// whether the source filter of instance 0 applies to version 1.
    fn serve(&self, py: Python<'_>, first: u32, end: u32, guard_v1: bool) {
        py.detach(|| {
            let mut tables = (*self.shared.tables()).clone();
            tables.sync_ports = first..end;
            tables.guard_v1 = guard_v1;
            self.shared.set_tables(tables);
        });
    }

    /// Set the furthest tick that an instance accepts; None: any.
    fn believe(&self, py: Python<'_>, lb: usize, furthest: Option<u64>) -> PyResult<()> {
        if lb >= LBS {
            return Err(PyValueError::new_err(format!(
                "instance {lb} does not exist, expected 0 to {}",
                LBS - 1
            )));
        }
        py.detach(|| self.shared.believe(lb, furthest));
        Ok(())
    }

    /// Process one frame as a thread does; return the frame that leaves. Frames for Python wait for `take_punts`.
    fn take<'py>(&self, py: Python<'py>, frame: &[u8]) -> Option<Bound<'py, PyBytes>> {
        let mut buffer = frame.to_vec();
        let range = py.detach(|| self.shared.lock().take(&mut buffer))?;
        Some(PyBytes::new(py, &buffer[range]))
    }

    /// Process one frame: return the frame that leaves, the number of a drop reason, or None if the frame is for
    /// Python.
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

    /// Process frames repeatedly, as a thread that reads them into a buffer; return the number of frames that left.
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

    /// Take the counts since the last call.
    fn collect<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let taken = py.detach(|| self.shared.collect());
        counters_dict(py, &taken)
    }

    #[getter]
    fn notice_fd(&self) -> RawFd {
        self.shared.notice.fd()
    }

    /// Take the frames that a thread passed to Python.
    fn take_punts<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let taken = py.detach(|| self.shared.take_punts());
        taken.iter().map(|frame| PyBytes::new(py, frame)).collect()
    }
}

/// Make a port from copies of descriptors, which stay the caller's.
fn open<S: Station>(station: Arc<S>, fds: &[RawFd], medium: &str) -> PyResult<Port<S>> {
    let copies = fds.iter().map(|fd| tap::duplicate(*fd)).collect::<Result<Vec<_>, _>>()?;
    Ok(match medium {
        "packet" => Port::of_packets(station, copies)?,
        "tap" => {
            let [fd] = <[_; 1]>::try_from(copies)
                .map_err(|fds| PyValueError::new_err(format!("{} descriptors of a TAP", fds.len())))?;
            Port::of_tap(station, fd)?
        }
        _ => return Err(PyValueError::new_err(format!("medium {medium:?}, expected tap or packet"))),
    })
}

#[pyclass(frozen)]
pub struct EjfatPort {
    port: Port<Shared>,
    pipeline: Arc<Shared>,
}

#[pymethods]
impl EjfatPort {
    /// `medium` is "tap", with one descriptor, or "packet", with one for each worker at most.
    #[new]
    fn new(pipeline: &EjfatPipeline, fds: Vec<RawFd>, medium: &str) -> PyResult<Self> {
        let shared = Arc::clone(&pipeline.shared);
        if fds.len() > shared.workers() {
            let text = format!("{} descriptors for {} workers", fds.len(), shared.workers());
            return Err(PyValueError::new_err(text));
        }
        Ok(EjfatPort { port: open(Arc::clone(&shared), &fds, medium)?, pipeline: shared })
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

/// The plain forwarder of the benchmark, on a port like the load balancer's.
#[pyclass(frozen)]
pub struct EjfatReflector {
    port: Port<Reflector>,
}

#[pymethods]
impl EjfatReflector {
    #[new]
    fn new(fds: Vec<RawFd>, medium: &str) -> PyResult<Self> {
        Ok(EjfatReflector { port: open(Reflector::new()?, &fds, medium)? })
    }

    fn start(&self) -> PyResult<()> {
        Ok(self.port.start()?)
    }

    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.port.stop());
    }

    #[getter]
    fn lost(&self) -> u64 {
        self.port.lost()
    }
}
