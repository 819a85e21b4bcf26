//! A carrier and its thread as one Python object: native VNICs on the engine of a fabric.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};

use engine::api::Engine;
use engine::app::NativeApp;
use engine::counters;
use engine::outputs::PortId;
use engine::packet::{Packet, Packets};
use engine::port::Address;
use engine::vnics::Vnics;
use engine::vnics::demux::Demux;
use engine::vnics::transmit::Uplink;
use offload::vnet::{SIZE, VnetHeader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tap::devices::Device;
use tap::thread::{Shared, Thread};

use crate::counts::{VportHarvest, take_vport, vport_dict};
use crate::fabric_engine::FabricEngine;
use crate::snapshot::VportArgs;

#[pyclass(frozen)]
pub struct Carrier {
    shared: Arc<Shared>,
    engine: Py<FabricEngine>,
    thread: Mutex<Option<Thread>>,
}

impl Carrier {
    /// Attach an app to a vport, in place of a device, until the vport is removed.
    pub fn attach(&self, py: Python<'_>, vport: usize, app: Arc<dyn NativeApp>) -> PyResult<()> {
        let found = py.detach(|| self.shared.lock().set_app(vport, Some(app)));
        if found { Ok(()) } else { Err(no_vport(vport)) }
    }
}

/// Keeps packets instead of sending them.
#[derive(Default)]
struct Kept {
    packets: Packets,
    sent: Vec<Packet>,
}

impl Uplink for Kept {
    fn packets(&mut self) -> &mut Packets {
        &mut self.packets
    }

    fn send(&mut self, _port: PortId, packet: Packet, _address: Address) -> Option<counters::Drop> {
        self.sent.push(packet);
        None
    }
}

fn no_vport(vport: usize) -> PyErr {
    PyValueError::new_err(format!("there is no vport with index {vport}"))
}

fn no_port(port: u32) -> PyErr {
    PyValueError::new_err(format!("there is no HFI port with number {port}"))
}

#[pymethods]
impl Carrier {
    #[new]
    #[pyo3(signature = (drops, *, icrc=true, merge=true))]
    fn new(py: Python<'_>, drops: Vec<Py<PyAny>>, icrc: bool, merge: bool) -> PyResult<Self> {
        let shared = Shared::new(Engine::default(), Vnics::new(icrc, merge))?;
        let engine = Py::new(py, FabricEngine::carried(Arc::clone(&shared), drops)?)?;
        Ok(Carrier { shared, engine, thread: Mutex::new(None) })
    }

    /// The engine that carries the packets.
    #[getter]
    fn engine(&self, py: Python<'_>) -> Py<FabricEngine> {
        self.engine.clone_ref(py)
    }

    /// Drive the carrier in real time from now on; until then it is driven by those who call it.
    fn start(&self) -> PyResult<()> {
        let mut thread = self.thread.lock().unwrap();
        if thread.is_none() {
            *thread = Some(Thread::start(Arc::clone(&self.shared))?);
        }
        Ok(())
    }

    fn stop(&self, py: Python<'_>) {
        let thread = self.thread.lock().unwrap().take();
        py.detach(|| drop(thread));
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

    /// Sightings that found no room while Python was behind.
    #[getter]
    fn missed(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.shared.lock().outbox.missed)
    }

    // --- vports ----------------------------------------------------------------------------------------------

    #[pyo3(signature = (fd=None, *, datagrams=false))]
    fn add_vport(&self, py: Python<'_>, fd: Option<RawFd>, datagrams: bool) -> PyResult<usize> {
        let device = fd.map(tap::duplicate).transpose()?.map(Device::new);
        let index = py.detach(|| {
            let carrier = &mut *self.shared.lock();
            let index = carrier.vnics.add();
            carrier.vnics.vports[index].take_datagrams_merged(datagrams);
            carrier.set_device(index, device).map(|()| index)
        })?;
        Ok(index)
    }

    #[pyo3(signature = (vport, *, reading, merging))]
    fn set_device(&self, py: Python<'_>, vport: usize, reading: bool, merging: bool) -> PyResult<()> {
        let found = py.detach(|| {
            let carrier = &mut *self.shared.lock();
            let Some(slot) = carrier.vnics.get(vport) else { return Ok(false) };
            slot.unmerged = !merging;
            carrier.change_device(vport, |device| device.stopped = !reading).map(|()| true)
        })?;
        if found { Ok(()) } else { Err(no_vport(vport)) }
    }

    /// Remove a vport and return its final counts.
    fn remove_vport<'py>(&self, py: Python<'py>, now: u64, vport: usize) -> PyResult<Bound<'py, PyDict>> {
        let harvest = py.detach(|| {
            self.shared.input(now, |carrier, now| {
                carrier.flush(now);
                let harvest = take_vport(carrier.vnics.get(vport)?);
                carrier.set_app(vport, None);
                carrier.vnics.remove(vport);
                // removing a descriptor cannot fail
                let _ = carrier.set_device(vport, None);
                Some(harvest)
            })
        });
        vport_dict(py, &harvest.ok_or_else(|| no_vport(vport))?)
    }

    #[pyo3(signature = (vport, config, port=None))]
    fn set_vport(&self, py: Python<'_>, vport: usize, config: VportArgs, port: Option<u32>) -> PyResult<()> {
        let config = Arc::new(config.build());
        py.detach(|| {
            let carrier = &mut *self.shared.lock();
            if let Some(port) = port.filter(|port| *port as usize >= carrier.engine.ports()) {
                return Err(no_port(port));
            }
            let slot = carrier.vnics.get(vport).ok_or_else(|| no_vport(vport))?;
            slot.config = config;
            slot.port = port;
            carrier.wake_stopped();
            carrier.wait_for_restarted();
            Ok(())
        })
    }

    /// Say how packets for the VNICs of an HFI port find them; what finds none is Python's.
    #[pyo3(signature = (port, mask, vports, nohandler=None))]
    fn set_demux(
        &self,
        py: Python<'_>,
        port: u32,
        mask: u16,
        vports: HashMap<u32, u32>,
        nohandler: Option<u32>,
    ) -> PyResult<()> {
        py.detach(|| {
            let carrier = &mut *self.shared.lock();
            if port as usize >= carrier.engine.ports() {
                return Err(no_port(port));
            }
            if let Some(vport) =
                vports.values().chain(&nohandler).find(|vport| carrier.vnics.get(**vport as usize).is_none())
            {
                return Err(no_vport(*vport as usize));
            }
            let vports = vports.into_iter().collect();
            carrier.vnics.set_demux(port, Demux { mask, vports, nohandler });
            Ok(())
        })
    }

    // --- counters --------------------------------------------------------------------------------------------

    /// Take what all vports have counted since the last time.
    fn collect<'py>(&self, py: Python<'py>, now: u64) -> PyResult<Bound<'py, PyDict>> {
        let harvests: Vec<(usize, VportHarvest)> = py.detach(|| {
            self.shared.input(now, |carrier, now| {
                carrier.flush(now);
                let vports = carrier.vnics.vports.iter_mut().enumerate();
                vports
                    .filter(|(_, vport)| vport.in_use)
                    .map(|(index, vport)| (index, take_vport(vport)))
                    .collect()
            })
        });
        let dict = PyDict::new(py);
        for (index, harvest) in &harvests {
            dict.set_item(index, vport_dict(py, harvest)?)?;
        }
        Ok(dict)
    }

    fn collect_vport<'py>(&self, py: Python<'py>, now: u64, vport: usize) -> PyResult<Bound<'py, PyDict>> {
        let harvest = py.detach(|| {
            self.shared.input(now, |carrier, now| {
                carrier.flush(now);
                carrier.vnics.get(vport).map(take_vport)
            })
        });
        vport_dict(py, &harvest.ok_or_else(|| no_vport(vport))?)
    }

    // --- what Python takes and gives -------------------------------------------------------------------------

    fn take_lost(&self, py: Python<'_>) -> Vec<(usize, i32)> {
        py.detach(|| std::mem::take(&mut self.shared.lock().lost))
    }

    /// Take the frames of vports that have neither a device nor an app.
    fn take_frames<'py>(&self, py: Python<'py>) -> Vec<(usize, Bound<'py, PyBytes>)> {
        let kept = py.detach(|| std::mem::take(&mut self.shared.lock().devices.kept));
        kept.into_iter().map(|(vport, frame)| (vport, PyBytes::new(py, &frame))).collect()
    }

    /// Send a frame as the host of a vport does.
    #[pyo3(signature = (now, vport, frame, header=None, hash15=None))]
    fn transmit(
        &self,
        py: Python<'_>,
        now: u64,
        vport: usize,
        frame: &[u8],
        header: Option<[u8; SIZE]>,
        hash15: Option<u16>,
    ) {
        let header = header.map_or_else(VnetHeader::default, |bytes| VnetHeader::parse(&bytes));
        let mut buffer = frame.to_vec();
        buffer.resize(frame.len().max(60), 0);
        py.detach(|| {
            self.shared.input(now, |carrier, now| {
                let frame = (&mut buffer[..], frame.len());
                carrier.vnics.transmit(&mut carrier.engine, now, vport, &header, frame, hash15);
            });
        });
    }

    /// Return the packets that a frame of the host of a vport becomes, which are not sent.
    fn encap<'py>(
        &self,
        py: Python<'py>,
        vport: usize,
        frame: &[u8],
        hash15: u16,
    ) -> Vec<Bound<'py, PyBytes>> {
        let mut buffer = frame.to_vec();
        buffer.resize(frame.len().max(60), 0);
        let mut kept = Kept::default();
        let frame = (&mut buffer[..], frame.len());
        let header = VnetHeader::default();
        self.shared.lock().vnics.transmit_over(&mut kept, vport, &header, frame, Some(hash15));
        kept.sent.iter().map(|packet| PyBytes::new(py, packet)).collect()
    }

    /// Give a packet to the VNICs of an HFI port, as if the port had received and checked it.
    fn demultiplex(&self, py: Python<'_>, now: u64, port: u32, packet: &[u8]) {
        py.detach(|| {
            self.shared.input(now, |carrier, _| {
                let packet = carrier.engine.packets().copy(packet);
                carrier.vnics.demultiplex(&mut carrier.engine, port, packet);
            });
        });
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        drop(self.thread.lock().unwrap().take());
    }
}
