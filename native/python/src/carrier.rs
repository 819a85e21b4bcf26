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
use engine::share::Share;
use engine::vnics::Vnics;
use engine::vnics::demux::Demux;
use engine::vnics::transmit::Uplink;
use engine::vnics::vport::Vport;
use offload::vnet::{SIZE, VnetHeader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tap::carrier::Carrier as TapCarrier;
use tap::devices::Device;
use tap::shared::Shared;
use tap::thread::Threads;

use crate::counts::{VportHarvest, take_vport, vport_dict};
use crate::fabric_engine::FabricEngine;
use crate::gate::Gate;
use crate::snapshot::VportArgs;

/// The most workers, far more than any machine has processors.
pub const MOST_WORKERS: u32 = 256;

#[pyclass(frozen)]
pub struct Carrier {
    shared: Arc<Shared>,
    engine: Py<FabricEngine>,
    threads: Mutex<Option<Threads>>,
}

impl Carrier {
    /// Attach an app to a vport, in place of a device, until the vport is removed.
    pub fn attach(&self, py: Python<'_>, vport: usize, app: Arc<dyn NativeApp>) -> PyResult<()> {
        let found = py.detach(|| self.shared.lock_home(vport).set_app(vport, Some(app)));
        if found { Ok(()) } else { Err(no_vport(vport)) }
    }
}

/// A sink that keeps packets instead of sending them.
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
    #[pyo3(signature = (drops, *, icrc_always=false, merge=true, workers=1, ports_per_host=1))]
    fn new(
        py: Python<'_>,
        drops: Vec<Py<PyAny>>,
        icrc_always: bool,
        merge: bool,
        workers: u32,
        ports_per_host: u32,
    ) -> PyResult<Self> {
        if !(1..=MOST_WORKERS).contains(&workers) {
            return Err(PyValueError::new_err(format!("workers is {workers}, expected 1 to {MOST_WORKERS}")));
        }
        let part = |worker| {
            let share = Share::new(worker, workers).in_rows_of(ports_per_host);
            (Engine::with_share(share), Vnics::new(icrc_always, merge))
        };
        let shared = Shared::new((0..workers).map(part).collect())?;
        let engine = Py::new(py, FabricEngine::carried(py, Arc::clone(&shared), drops)?)?;
        Ok(Carrier { shared, engine, threads: Mutex::new(None) })
    }

    /// The engine that carries the packets.
    #[getter]
    fn engine(&self, py: Python<'_>) -> Py<FabricEngine> {
        self.engine.clone_ref(py)
    }

    /// Open the gate to other machines: packets for them are taken from it, no longer from the engine's outputs.
    /// `peers`: of each other machine, the directions of each link, there and back.
    fn gate(&self, py: Python<'_>, peers: Vec<Vec<(u32, u32)>>) -> PyResult<Gate> {
        Gate::open(py, Arc::clone(&self.shared), peers)
    }

    /// Start threads that drive the carrier in real time; until then its callers drive it.
    fn start(&self) -> PyResult<()> {
        let mut threads = self.threads.lock().unwrap();
        if threads.is_none() {
            *threads = Some(Threads::start(Arc::clone(&self.shared))?);
        }
        Ok(())
    }

    fn stop(&self, py: Python<'_>) {
        let threads = self.threads.lock().unwrap().take();
        py.detach(|| drop(threads));
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

    /// The number of observed packets not reported because Python was behind.
    #[getter]
    fn missed(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.shared.lock_all().iter_mut().map(|carrier| carrier.outbox.missed).sum())
    }

    /// The share of each worker: the number of vports with a configured port, and of links.
    #[getter]
    fn loads(&self, py: Python<'_>) -> Vec<(usize, usize)> {
        py.detach(|| {
            let has_port = |vport: &&Vport| vport.in_use && vport.port.is_some();
            let load = |carrier: &mut TapCarrier| {
                let links = (0..carrier.engine.directions() as u32).step_by(2);
                let vports = carrier.vnics.vports.iter().filter(has_port).count();
                (vports, links.filter(|first| carrier.engine.carries(*first)).count())
            };
            self.shared.lock_all().iter_mut().map(load).collect()
        })
    }

    /// The processor-time clock of each thread, for `time.clock_gettime_ns`; empty while none runs.
    #[getter]
    fn clocks(&self) -> PyResult<Vec<i32>> {
        let threads = self.threads.lock().unwrap();
        Ok(threads.as_ref().map_or(Ok(Vec::new()), Threads::clocks)?)
    }

    /// Of each vport, which worker has it, and of how many flows is what its host receives: bursts so far, and the flows
    /// of each, added up.
    #[getter]
    fn mixes(&self, py: Python<'_>) -> Vec<(u32, u64, u64)> {
        py.detach(|| {
            let mut all = self.shared.lock_all();
            let count = all.home(0).vnics.vports.len();
            let mix_of = |vport| {
                let mix = all.home(vport).vnics.vports[vport].mix();
                (self.shared.home(vport), mix.bursts, mix.flows)
            };
            (0..count).map(mix_of).collect()
        })
    }

    // --- vports ----------------------------------------------------------------------------------------------

    #[pyo3(signature = (fd=None))]
    fn add_vport(&self, py: Python<'_>, fd: Option<RawFd>) -> PyResult<usize> {
        // nothing is read before the vport has a configuration
        let mut device = fd.map(tap::duplicate).transpose()?.map(Device::new);
        if let Some(device) = &mut device {
            device.stopped = true;
        }
        let index = py.detach(|| {
            let mut all = self.shared.lock_all();
            let index = all.add_vport();
            let carrier = all.home(index);
            carrier.set_device(index, device).map(|()| index)
        })?;
        Ok(index)
    }

    #[pyo3(signature = (vport, *, reading, merge_tcp, merge_udp))]
    fn set_device(
        &self,
        py: Python<'_>,
        vport: usize,
        reading: bool,
        merge_tcp: bool,
        merge_udp: bool,
    ) -> PyResult<()> {
        let found = py.detach(|| {
            let carrier = &mut *self.shared.lock_home(vport);
            let Some(slot) = carrier.vnics.get(vport) else { return Ok(false) };
            slot.unmerged = !merge_tcp;
            slot.take_datagrams_merged(merge_udp);
            carrier.change_device(vport, |device| device.stopped = !reading).map(|()| true)
        })?;
        if found { Ok(()) } else { Err(no_vport(vport)) }
    }

    /// Remove a vport and return its final counts.
    fn remove_vport<'py>(&self, py: Python<'py>, now: u64, vport: usize) -> PyResult<Bound<'py, PyDict>> {
        let harvest = py.detach(|| {
            let mut harvests = self.shared.change(now, |carrier, now| {
                carrier.flush(now);
                let harvest = take_vport(carrier.vnics.get(vport)?);
                carrier.set_app(vport, None);
                carrier.vnics.remove(&mut carrier.engine, vport);
                // removing a descriptor cannot fail
                let _ = carrier.set_device(vport, None);
                Some(harvest)
            });
            harvests.swap_remove(self.shared.home(vport) as usize)
        });
        vport_dict(py, &harvest.ok_or_else(|| no_vport(vport))?)
    }

    #[pyo3(signature = (vport, config, port=None))]
    fn set_vport(&self, py: Python<'_>, vport: usize, config: VportArgs, port: Option<u32>) -> PyResult<()> {
        let config = Arc::new(config.build());
        py.detach(|| {
            let mut all = self.shared.lock_all();
            let now = all.now(0);
            let carrier = all.home(vport);
            if let Some(port) = port.filter(|port| *port as usize >= carrier.engine.ports()) {
                return Err(no_port(port));
            }
            let slot = carrier.vnics.get(vport).ok_or_else(|| no_vport(vport))?;
            slot.configure(config);
            slot.port = port;
            carrier.wake_stopped();
            carrier.wait_for_restarted();
            Ok(all.settle_vport(now, vport)?)
        })
    }

    /// Set the table that assigns packets of an HFI port to its VNICs; all other packets go to Python.
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
            let mut all = self.shared.lock_all();
            let named = || vports.values().chain(&nohandler).map(|vport| *vport as usize);
            let known = all.home(0);
            if port as usize >= known.engine.ports() {
                return Err(no_port(port));
            }
            if let Some(vport) = named().find(|vport| known.vnics.get(*vport).is_none()) {
                return Err(no_vport(vport));
            }
            if let Some(vport) = named().find(|vport| !all.is_with(*vport, port)) {
                let text = format!("vport {vport} is not on HFI port {port}, and belongs to another worker");
                return Err(PyValueError::new_err(text));
            }
            let vports = vports.into_iter().collect();
            let demux = Demux { mask, vports, nohandler };
            // senders to the port ask their own engine whether it takes bursts
            let takes_bursts = demux.is_whole();
            all.iter_mut().for_each(|carrier| carrier.engine.take_bursts(port, takes_bursts));
            let owner = all.owner(port);
            owner.vnics.set_demux(&mut owner.engine, port, demux);
            Ok(())
        })
    }

    // --- counters --------------------------------------------------------------------------------------------

    /// Take the counts of all vports since the last call.
    fn collect<'py>(&self, py: Python<'py>, now: u64) -> PyResult<Bound<'py, PyDict>> {
        let harvests: Vec<(usize, VportHarvest)> = py.detach(|| {
            let mut worker = 0;
            let mut harvests = Vec::new();
            self.shared.change(now, |carrier, now| {
                carrier.flush(now);
                let vports = carrier.vnics.vports.iter_mut().enumerate();
                let own = vports.filter(|(index, vport)| vport.in_use && self.shared.home(*index) == worker);
                harvests.extend(own.map(|(index, vport)| (index, take_vport(vport))));
                worker += 1;
            });
            harvests
        });
        let dict = PyDict::new(py);
        for (index, harvest) in &harvests {
            dict.set_item(index, vport_dict(py, harvest)?)?;
        }
        Ok(dict)
    }

    fn collect_vport<'py>(&self, py: Python<'py>, now: u64, vport: usize) -> PyResult<Bound<'py, PyDict>> {
        let harvest = py.detach(|| {
            self.shared.input(self.shared.home(vport), now, |carrier, now| {
                carrier.flush(now);
                carrier.vnics.get(vport).map(take_vport)
            })
        });
        vport_dict(py, &harvest.ok_or_else(|| no_vport(vport))?)
    }

    // --- frames and packets of Python ------------------------------------------------------------------------

    fn take_lost(&self, py: Python<'_>) -> Vec<(usize, i32)> {
        py.detach(|| self.shared.lock_all().iter_mut().flat_map(|it| std::mem::take(&mut it.lost)).collect())
    }

    /// Take the sources of frames that Python is to hear of, each with its vport.
    fn take_heard(&self, py: Python<'_>) -> Vec<(u32, [u8; 6])> {
        let take = |carrier: &mut TapCarrier| std::mem::take(&mut carrier.vnics.heard);
        let heard: Vec<_> = py.detach(|| self.shared.lock_all().iter_mut().flat_map(take).collect());
        let mac = |key: u64| key.to_le_bytes()[..6].try_into().expect("a key has 6 bytes and more");
        heard.into_iter().map(|(vport, key)| (vport, mac(key))).collect()
    }

    /// Take the frames of vports that have neither a device nor an app.
    fn take_frames<'py>(&self, py: Python<'py>) -> Vec<(usize, Bound<'py, PyBytes>)> {
        let take = |carrier: &mut TapCarrier| std::mem::take(&mut carrier.devices.kept);
        let kept: Vec<_> = py.detach(|| self.shared.lock_all().iter_mut().flat_map(take).collect());
        kept.into_iter().map(|(vport, frame)| (vport, PyBytes::new(py, &frame))).collect()
    }

    /// Send a frame as the host of a vport does.
    #[pyo3(signature = (now, vport, frame, header=None, flow_hash=None))]
    fn transmit(
        &self,
        py: Python<'_>,
        now: u64,
        vport: usize,
        frame: &[u8],
        header: Option<[u8; SIZE]>,
        flow_hash: Option<u32>,
    ) {
        let header = header.map_or_else(VnetHeader::default, |bytes| VnetHeader::parse(&bytes));
        let mut buffer = frame.to_vec();
        buffer.resize(frame.len().max(60), 0);
        py.detach(|| {
            self.shared.input(self.shared.home(vport), now, |carrier, now| {
                let frame = (&mut buffer[..], frame.len());
                carrier.vnics.transmit(&mut carrier.engine, now, vport, &header, frame, flow_hash);
            });
        });
    }

    /// Return the packets that a frame of the host of a vport becomes, which are not sent.
    fn encap<'py>(
        &self,
        py: Python<'py>,
        vport: usize,
        frame: &[u8],
        flow_hash: u32,
    ) -> Vec<Bound<'py, PyBytes>> {
        let mut buffer = frame.to_vec();
        buffer.resize(frame.len().max(60), 0);
        let mut kept = Kept::default();
        let frame = (&mut buffer[..], frame.len());
        let header = VnetHeader::default();
        self.shared.lock_home(vport).vnics.transmit_over(&mut kept, vport, &header, frame, Some(flow_hash));
        let Kept { mut packets, sent } = kept;
        let bytes = |mut packet: Packet| {
            packets.seal(&mut packet);
            PyBytes::new(py, &packet)
        };
        sent.into_iter().map(bytes).collect()
    }

    /// Give a packet to the VNICs of an HFI port, as if the port had received and checked it.
    fn demultiplex(&self, py: Python<'_>, now: u64, port: u32, packet: &[u8]) {
        py.detach(|| {
            self.shared.input(self.shared.owner(port), now, |carrier, _| {
                let packet = carrier.engine.packets().copy(packet);
                carrier.vnics.demultiplex(&mut carrier.engine, port, packet);
            });
        });
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        drop(self.threads.lock().unwrap().take());
    }
}
