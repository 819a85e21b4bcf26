//! The Python interface of the datapath. Its types are declared in opavnic/_native.pyi.

use std::collections::HashMap;
use std::os::fd::RawFd;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::app::NativeApp;
use crate::core::{Core, Options, Vport};
use crate::counters::{DROP_NAMES, Element, FaultCount, Tally, Traffic, Vnic};
use crate::devices::Device;
use crate::encap::{self, Channels, Sources, VportConfig, mac_key};
use crate::fabric::{
    Demux, Direction, End, Fabric, Fault, HfiPort, Link, NO_ROUTE, PkeySet, Switch, SwitchPort,
};
use crate::hash::FastMap;
use crate::segment::Segments;
use crate::tap;
use crate::vnet::{SIZE, VnetHeader};
use crate::wire;
use crate::worker::{Shared, State, Worker};
use std::sync::Arc;

// --- from Python -------------------------------------------------------------------------------------------

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct VportArgs {
    vesw_id: u16,
    pkey: u16,
    slid: u32,
    rc: u32,
    u_mcast_dlid: u32,
    flow_dlids: [u32; 32],
    sc_uc: [u8; 8],
    sc_mc: [u8; 8],
    non_vlan_sc_uc: u8,
    non_vlan_sc_mc: u8,
    macs: Vec<([u8; 6], u32)>,
    sources: Option<SourceArgs>,
    mtu: usize,
    oper_up: bool,
}

impl VportArgs {
    fn build(self) -> VportConfig {
        let mut macs = FastMap::default();
        for (mac, dlid) in self.macs {
            macs.entry(mac_key(&mac)).or_insert(dlid);
        }
        VportConfig {
            vesw_id: self.vesw_id,
            pkey: self.pkey,
            slid: self.slid,
            rc: self.rc,
            u_mcast_dlid: self.u_mcast_dlid,
            flow_dlids: self.flow_dlids,
            unicast: Channels { by_pcp: self.sc_uc, untagged: self.non_vlan_sc_uc },
            multicast: Channels { by_pcp: self.sc_mc, untagged: self.non_vlan_sc_mc },
            macs,
            sources: self.sources.map(build_sources),
            mtu: self.mtu,
            oper_up: self.oper_up,
        }
    }
}

/// Exact addresses; masks with their addresses.
type SourceArgs = (Vec<[u8; 6]>, Vec<([u8; 6], [u8; 6])>);

fn build_sources((exact, masked): SourceArgs) -> Sources {
    Sources {
        exact: exact.iter().map(|mac| (mac_key(mac), ())).collect(),
        masked: masked.iter().map(|(mask, mac)| (mac_key(mask), mac_key(mask) & mac_key(mac))).collect(),
    }
}

type DirectionArgs = Option<(u32, u8)>;

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PortArgs {
    active: bool,
    lid: u32,
    lmc: u8,
    sendable: Vec<u16>,
    admitted: Vec<u16>,
    groups: Vec<u32>,
    direction: DirectionArgs,
    vesw_mask: u16,
    vesws: HashMap<u32, u32>,
    nohandler: Option<u32>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct SwitchArgs {
    up: bool,
    ports: Vec<(bool, DirectionArgs)>,
    lft: HashMap<u32, u16>,
    mft: HashMap<u32, Vec<u32>>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct LinkArgs {
    /// (index of an HFI port, None) or (index of a switch, index of its port)
    ends: [(u32, Option<u32>); 2],
    up: bool,
    slow: bool,
    /// For either end: probability in units of 2^-53, and number of bits to flip, 0 for loss.
    faults: [Vec<(u64, u32)>; 2],
    streams: [u64; 2],
}

/// The limit of a dense forwarding table. The unicast LIDs of OPA have 24 bits, far more than any lab uses.
const LFT_LIMIT: u32 = 1 << 20;

fn direction(args: DirectionArgs) -> Option<Direction> {
    args.map(|(link, from)| Direction { link, from })
}

fn build_switch(args: SwitchArgs) -> PyResult<Switch> {
    let highest = args.lft.keys().copied().max().unwrap_or(0);
    if highest >= LFT_LIMIT {
        return Err(PyValueError::new_err(format!(
            "LID {highest:#x} is beyond the forwarding table ({LFT_LIMIT:#x})"
        )));
    }
    let mut lft = vec![NO_ROUTE; highest as usize + 1];
    for (lid, port) in args.lft {
        lft[lid as usize] = port;
    }
    let mut mft = FastMap::default();
    for (lid, mut group) in args.mft {
        group.sort_unstable();
        mft.insert(lid, group);
    }
    let ports =
        args.ports.into_iter().map(|(active, l)| SwitchPort { active, direction: direction(l) }).collect();
    Ok(Switch { up: args.up, ports, lft, mft })
}

fn build_port(args: PortArgs) -> HfiPort {
    HfiPort {
        active: args.active,
        lid: args.lid,
        lmc: args.lmc,
        sendable: PkeySet(args.sendable),
        admitted: PkeySet(args.admitted),
        groups: args.groups.into_iter().map(|lid| (lid, ())).collect(),
        direction: direction(args.direction),
        demux: Demux {
            mask: args.vesw_mask,
            vports: args.vesws.into_iter().collect(),
            nohandler: args.nohandler,
        },
    }
}

fn build_link(args: LinkArgs) -> Link {
    let end = |(node, port): (u32, Option<u32>)| match port {
        None => End::Hfi(node),
        Some(port) => End::Switch(node, port),
    };
    Link {
        ends: args.ends.map(end),
        up: args.up,
        slow: args.slow,
        faults: args
            .faults
            .map(|faults| faults.into_iter().map(|(chance, bits)| Fault { chance, bits }).collect()),
        streams: args.streams,
    }
}

// --- to Python ---------------------------------------------------------------------------------------------

fn set_numbers(dict: &Bound<'_, PyDict>, numbers: &[(&'static str, u64)]) -> PyResult<()> {
    numbers.iter().try_for_each(|(name, number)| dict.set_item(name, number))
}

/// Return the packets by drop reason, without zeros.
pub fn tally_dict<'py, const REASONS: usize>(
    py: Python<'py>,
    names: &[&'static str; REASONS],
    tally: &Tally<REASONS>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, packets) in names.iter().zip(**tally) {
        if packets != 0 {
            dict.set_item(name, packets)?;
        }
    }
    Ok(dict)
}

fn element_dict<'py>(py: Python<'py>, element: &Element) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    set_numbers(&dict, &element.numbers())?;
    dict.set_item("drops", tally_dict(py, &DROP_NAMES, &element.drops)?)?;
    Ok(dict)
}

fn traffic_dict<'py>(py: Python<'py>, traffic: &Traffic) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    set_numbers(&dict, &traffic.numbers())?;
    dict.set_item("sizes", traffic.sizes)?;
    Ok(dict)
}

fn vnic_dict<'py>(py: Python<'py>, vnic: &Vnic) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("tx", traffic_dict(py, &vnic.tx)?)?;
    dict.set_item("rx", traffic_dict(py, &vnic.rx)?)?;
    set_numbers(&dict, &vnic.numbers())?;
    Ok(dict)
}

/// What a vport has counted since the last time: as the driver does, and for the conservation law.
type VportHarvest = (Vnic, Element, Element);

fn take_vport(vport: &mut Vport) -> VportHarvest {
    use std::mem::take;
    (take(&mut vport.counters), take(&mut vport.tx_law), take(&mut vport.rx_law))
}

fn vport_dict<'py>(py: Python<'py>, (vnic, tx, rx): &VportHarvest) -> PyResult<Bound<'py, PyDict>> {
    let dict = vnic_dict(py, vnic)?;
    dict.set_item("tx_law", element_dict(py, tx)?)?;
    dict.set_item("rx_law", element_dict(py, rx)?)?;
    Ok(dict)
}

/// Link, end where the packet enters it, number of switches entered so far, bytes.
type PacketTuple<'py> = (u32, u8, u32, Bound<'py, PyBytes>);

/// What has been counted since the last time, taken from the core under its lock.
struct Harvest {
    port_tx: Vec<Element>,
    port_rx: Vec<Element>,
    switches: Vec<Element>,
    directions: Vec<[Element; 2]>,
    faults: Vec<[Vec<FaultCount>; 2]>,
    /// Random words drawn, by link and end.
    drawn: Vec<[u64; 2]>,
    vports: Vec<(usize, VportHarvest)>,
}

impl Harvest {
    fn take(core: &mut Core) -> Self {
        use std::mem::take;
        fn take_all<T: Clone + Default>(counters: &mut Vec<T>) -> Vec<T> {
            let fresh = vec![T::default(); counters.len()];
            std::mem::replace(counters, fresh)
        }
        Harvest {
            port_tx: take_all(&mut core.port_tx),
            port_rx: take_all(&mut core.port_rx),
            switches: take_all(&mut core.switches),
            directions: take_all(&mut core.directions),
            faults: std::mem::replace(&mut core.fault_counts, core.fabric.no_fault_counts()),
            drawn: core.streams.iter_mut().map(|ends| ends.each_mut().map(|s| take(&mut s.drawn))).collect(),
            vports: core
                .vports
                .iter_mut()
                .enumerate()
                .filter(|(_, vport)| vport.in_use)
                .map(|(index, vport)| (index, take_vport(vport)))
                .collect(),
        }
    }

    fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        fn list<'py>(py: Python<'py>, elements: &[Element]) -> PyResult<Vec<Bound<'py, PyDict>>> {
            elements.iter().map(|element| element_dict(py, element)).collect()
        }
        let dict = PyDict::new(py);
        dict.set_item("port_tx", list(py, &self.port_tx)?)?;
        dict.set_item("port_rx", list(py, &self.port_rx)?)?;
        dict.set_item("switches", list(py, &self.switches)?)?;
        let directions: PyResult<Vec<_>> = self.directions.iter().map(|pair| list(py, pair)).collect();
        dict.set_item("directions", directions?)?;
        let pairs =
            |counts: Vec<FaultCount>| counts.into_iter().map(|c| (c.seen, c.hits)).collect::<Vec<_>>();
        let faults: Vec<_> = self.faults.into_iter().map(|link| Vec::from(link.map(pairs))).collect();
        dict.set_item("faults", faults)?;
        dict.set_item("drawn", self.drawn)?;
        let vports = PyDict::new(py);
        for (index, harvest) in &self.vports {
            vports.set_item(index, vport_dict(py, harvest)?)?;
        }
        dict.set_item("vports", vports)?;
        Ok(dict)
    }
}

// --- the engine --------------------------------------------------------------------------------------------

#[pyclass(frozen)]
pub struct Engine {
    shared: Arc<Shared>,
    worker: std::sync::Mutex<Option<Worker>>,
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
        Ok(Engine { shared: Shared::new(core)?, worker: std::sync::Mutex::new(None) })
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
            ports: ports.into_iter().map(build_port).collect(),
            switches: switches.into_iter().map(build_switch).collect::<PyResult<_>>()?,
            links: links.into_iter().map(build_link).collect(),
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

// --- pure functions, for tests and conformance runs --------------------------------------------------------

#[pyfunction]
fn icrc(packet: &[u8]) -> PyResult<u32> {
    if packet.len() < wire::HEADER + wire::TRAILER {
        return Err(PyValueError::new_err(format!("{} bytes are not a 16B packet", packet.len())));
    }
    Ok(wire::icrc::icrc(packet))
}

#[pyfunction]
fn check(packet: &[u8]) -> Option<&'static str> {
    wire::check(packet, true).err().map(|fault| match fault {
        wire::Fault::Truncated => "rx_truncated",
        wire::Fault::L2 => "rx_l2",
        wire::Fault::Length => "rx_length",
        wire::Fault::Icrc => "rx_icrc",
    })
}

#[pyfunction]
fn hash15(frame: &[u8]) -> PyResult<u16> {
    if frame.len() < 14 {
        return Err(PyValueError::new_err(format!("{} bytes are not an Ethernet frame", frame.len())));
    }
    Ok(encap::hash15(frame, &crate::frame::parse(frame)))
}

#[pyfunction]
fn segment<'py>(py: Python<'py>, header: [u8; SIZE], frame: &[u8]) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let refused = || PyValueError::new_err("the virtio-net header does not fit the frame");
    if frame.len() < 14 {
        return Err(refused());
    }
    let parsed = crate::frame::parse(frame);
    let mut segments = Segments::new(frame, &VnetHeader::parse(&header), &parsed).map_err(|_| refused())?;
    let mut frames = Vec::new();
    while let Some(len) = segments.next_len() {
        let mut out = vec![0xa5; len];
        segments.write_next(&mut out);
        frames.push(PyBytes::new(py, &out));
    }
    Ok(frames)
}

#[pyfunction]
fn relay(py: Python<'_>, a: RawFd, b: RawFd, stop: RawFd) -> PyResult<()> {
    Ok(py.detach(|| crate::relay::relay(a, b, stop))?)
}

/// Add the datapath to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VNET_HEADER_SIZE", SIZE)?;
    module.add_class::<Engine>()?;
    module.add_function(wrap_pyfunction!(icrc, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(hash15, module)?)?;
    module.add_function(wrap_pyfunction!(segment, module)?)?;
    module.add_function(wrap_pyfunction!(relay, module)?)?;
    Ok(())
}
