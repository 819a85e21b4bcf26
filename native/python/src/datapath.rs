//! The engine, its devices and its thread as one Python object.

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};

use engine::app::NativeApp;
use engine::core::fabric::Fabric;
use engine::core::{Core, Options, Vport};
use offload::vnet::{SIZE, VnetHeader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tap::devices::Device;
use tap::worker::{Shared, State, Worker};

use crate::counts::{Harvest, take_vport, vport_dict};
use crate::snapshot::{LinkArgs, PortArgs, SwitchArgs, VportArgs};

/// Link, end where the packet enters it, number of switches entered so far, bytes.
type PacketTuple<'py> = (u32, u8, u32, Bound<'py, PyBytes>);

#[pyclass(frozen)]
pub struct Engine {
    shared: Arc<Shared>,
    worker: Mutex<Option<Worker>>,
}

impl Engine {
    /// Lock the core without holding the GIL, so that waiting for the thread does not stop Python.
    fn with<R: Send>(&self, py: Python<'_>, action: impl FnOnce(&mut State) -> R + Send) -> R {
        py.detach(|| action(&mut self.shared.lock()))
    }

    /// Attach an app to a vport, in place of a device, until the vport is removed.
    pub fn attach(&self, py: Python<'_>, vport: usize, app: Arc<dyn NativeApp>) -> PyResult<()> {
        let found = self.with(py, |state| state.set_app(vport, Some(app)));
        if found { Ok(()) } else { Err(no_vport(vport)) }
    }
}

fn no_vport(vport: usize) -> PyErr {
    PyValueError::new_err(format!("there is no vport with index {vport}"))
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (*, icrc=true, merge=true, enforce=true))]
    fn new(icrc: bool, merge: bool, enforce: bool) -> PyResult<Self> {
        let core = Core::new(Options { icrc, merge, enforce });
        Ok(Engine { shared: Shared::new(core)?, worker: Mutex::new(None) })
    }

    fn start(&self) -> PyResult<()> {
        let mut worker = self.worker.lock().unwrap();
        if worker.is_none() {
            *worker = Some(Worker::start(Arc::clone(&self.shared))?);
        }
        Ok(())
    }

    fn stop(&self, py: Python<'_>) {
        let worker = self.worker.lock().unwrap().take();
        py.detach(|| drop(worker));
    }

    fn pause(&self, py: Python<'_>) {
        py.detach(|| self.shared.pause(true));
    }

    fn resume(&self, py: Python<'_>) {
        py.detach(|| self.shared.pause(false));
    }

    #[getter]
    fn notice_fd(&self) -> RawFd {
        self.shared.notice.fd()
    }

    #[getter]
    fn failure(&self) -> Option<String> {
        self.shared.failure()
    }

    #[pyo3(signature = (fd=None, *, datagrams=false))]
    fn add_vport(&self, py: Python<'_>, fd: Option<RawFd>, datagrams: bool) -> PyResult<usize> {
        let device = fd.map(tap::duplicate).transpose()?.map(Device::new);
        let poller = &self.shared.poller;
        let index = self.with(py, |state| {
            let vports = &mut state.core.vports;
            let index = vports.iter().position(|vport| !vport.in_use).unwrap_or(vports.len());
            if index == vports.len() {
                vports.push(Vport::default());
            }
            state.devices.set(poller, index, device)?;
            let vport = &mut state.core.vports[index];
            vport.in_use = true;
            vport.take_datagrams_merged(datagrams);
            std::io::Result::Ok(index)
        })?;
        Ok(index)
    }

    #[pyo3(signature = (vport, *, reading, merging))]
    fn set_device(&self, py: Python<'_>, vport: usize, reading: bool, merging: bool) -> PyResult<()> {
        let poller = &self.shared.poller;
        let found = self.with(py, |state| {
            let Some(slot) = state.core.vports.get_mut(vport).filter(|slot| slot.in_use) else {
                return Ok(false);
            };
            slot.unmerged = !merging;
            state.devices.change(poller, vport, |device| device.stopped = !reading).map(|()| true)
        })?;
        if found { Ok(()) } else { Err(no_vport(vport)) }
    }

    /// Remove a vport and return its final counts.
    fn remove_vport<'py>(&self, py: Python<'py>, vport: usize) -> PyResult<Bound<'py, PyDict>> {
        let poller = &self.shared.poller;
        let harvest = self.with(py, |state| {
            let slot = state.core.vports.get_mut(vport).filter(|slot| slot.in_use)?;
            let harvest = take_vport(slot);
            state.set_app(vport, None);
            state.core.vports[vport] = Vport::default();
            // removing a descriptor cannot fail
            let _ = state.devices.set(poller, vport, None);
            Some(harvest)
        });
        vport_dict(py, &harvest.ok_or_else(|| no_vport(vport))?)
    }

    #[pyo3(signature = (vport, config, port=None))]
    fn set_vport(&self, py: Python<'_>, vport: usize, config: VportArgs, port: Option<u32>) -> PyResult<()> {
        let config = Arc::new(config.build());
        self.with(py, |state| {
            if port.is_some_and(|port| port as usize >= state.core.fabric.ports.len()) {
                return None;
            }
            let slot = state.core.vports.get_mut(vport).filter(|slot| slot.in_use)?;
            slot.config = config;
            slot.port = port;
            Some(())
        })
        .ok_or_else(|| no_vport(vport))
    }

    /// Replace the fabric; return the counts of the old one, with its indexes.
    fn set_fabric<'py>(
        &self,
        py: Python<'py>,
        ports: Vec<PortArgs>,
        switches: Vec<SwitchArgs>,
        links: Vec<LinkArgs>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let fabric = Fabric {
            ports: ports.into_iter().map(PortArgs::build).collect(),
            switches: switches.into_iter().map(SwitchArgs::build).collect::<PyResult<_>>()?,
            links: links.into_iter().map(LinkArgs::build).collect(),
        };
        self.with(py, |state| {
            let harvest = Harvest::take(&mut state.core);
            state.core.set_fabric(fabric)?;
            // skip what the thread has drawn since the caller last collected; links keep their indexes
            for (streams, drawn) in state.core.streams.iter_mut().zip(&harvest.drawn) {
                for (stream, words) in streams.iter_mut().zip(drawn) {
                    stream.skip(*words);
                }
            }
            Ok(harvest)
        })
        .map_err(|error: String| PyValueError::new_err(error))?
        .into_dict(py)
    }

    fn collect<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.with(py, |state| Harvest::take(&mut state.core)).into_dict(py)
    }

    fn collect_vport<'py>(&self, py: Python<'py>, vport: usize) -> PyResult<Bound<'py, PyDict>> {
        let harvest = self
            .with(py, |state| state.core.vports.get_mut(vport).filter(|slot| slot.in_use).map(take_vport));
        vport_dict(py, &harvest.ok_or_else(|| no_vport(vport))?)
    }

    fn take_packets<'py>(&self, py: Python<'py>) -> PyResult<Vec<PacketTuple<'py>>> {
        self.shared.notice.clear();
        let taken = self.with(py, |state| state.take_upcalls(&self.shared.poller))?;
        Ok(taken
            .into_iter()
            .map(|u| (u.direction.link, u.direction.from, u.hops, PyBytes::new(py, &u.packet)))
            .collect())
    }

    fn take_lost(&self, py: Python<'_>) -> Vec<(usize, i32)> {
        self.with(py, |state| std::mem::take(&mut state.lost))
    }

    fn take_frames<'py>(&self, py: Python<'py>) -> Vec<(usize, Bound<'py, PyBytes>)> {
        let kept = self.with(py, |state| std::mem::take(&mut state.devices.kept));
        kept.into_iter().map(|(vport, frame)| (vport, PyBytes::new(py, &frame))).collect()
    }

    #[pyo3(signature = (vport, frame, header=None, hash15=None))]
    fn transmit(
        &self,
        py: Python<'_>,
        vport: usize,
        frame: &[u8],
        header: Option<[u8; SIZE]>,
        hash15: Option<u16>,
    ) {
        let header = header.map_or_else(VnetHeader::default, |bytes| VnetHeader::parse(&bytes));
        let mut buffer = frame.to_vec();
        buffer.resize(frame.len().max(60), 0);
        self.with(py, |state| {
            state.core.transmit(vport, &header, &mut buffer, frame.len(), hash15);
            state.end_burst();
            if !state.core.upcalls.is_empty() {
                self.shared.notice.raise();
            }
        });
    }

    #[pyo3(signature = (port, packet, *, checked=true))]
    fn receive(&self, py: Python<'_>, port: u32, packet: &[u8], checked: bool) -> PyResult<()> {
        self.with(py, |state| {
            if port as usize >= state.core.fabric.ports.len() {
                return Err(PyValueError::new_err(format!("there is no HFI port with index {port}")));
            }
            if checked {
                state.core.receive(port, packet);
            } else {
                state.core.demultiplex(port, packet);
            }
            state.core.flush(&mut state.devices);
            Ok(())
        })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.worker.lock().unwrap().take());
    }
}
