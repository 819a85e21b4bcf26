//! The fabric engine as a Python object: numbers, bytes and tuples in, the same out. It stands alone, driven by its
//! caller, or in a carrier; both look the same.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::api::Engine;
use engine::config::{End, PortNum};
use engine::counters::{DROP_NAMES, Drop};
use engine::crossing::Record;
use engine::link::rule::{FaultRule, Tally};
use engine::link::vl_counters::{Uncounted, VlCounters};
use engine::link::wire_counters::WireCounters;
use engine::outputs::{Output, PortId};
use engine::packet::Packets;
use engine::port::Address;
use engine::port_errors::{PortError, PortErrors};
use engine::random::Stream;
use engine::share::WorkerId;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PySequence, PyTuple};
use tap::shared::Shared;

use crate::capture_ring::CaptureRing;
use crate::fabric_args::{
    EndArgs, FlowArgs, LinkArgs, PortArgs, RuleArgs, SwitchPortArgs, linear_table, multicast_table,
};
use crate::fabric_results::{ErrorRow, LaneStatus, Outputs, VlRow, WireCounts, counted_tuple};

/// The driver of the engine: only the caller, or also the threads of a carrier.
enum Inner {
    Alone(Box<Engine>),
    Carried(Arc<Shared>),
}

#[pyclass]
pub struct FabricEngine {
    inner: Inner,
    /// The drop reasons of Python, by number.
    drops: Vec<Py<PyAny>>,
    outputs: Outputs,
    /// Outputs taken from a carrier and not returned yet.
    taken: VecDeque<Output>,
    /// The number of elements, which only calls of this object change; for ports, their workers.
    ports: Vec<WorkerId>,
    switches: usize,
    directions: usize,
    tallies: usize,
}

pub fn known(what: &str, number: u32, known: usize) -> PyResult<()> {
    if (number as usize) < known {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("there are {known} {what}, none with number {number}")))
}

impl FabricEngine {
    fn over(py: Python<'_>, inner: Inner, drops: Vec<Py<PyAny>>) -> PyResult<Self> {
        if drops.len() != DROP_NAMES.len() {
            let text = format!("{} drop reasons, expected {}", drops.len(), DROP_NAMES.len());
            return Err(PyValueError::new_err(text));
        }
        Ok(FabricEngine {
            inner,
            drops,
            outputs: Outputs::import(py)?,
            taken: VecDeque::new(),
            ports: Vec::new(),
            switches: 0,
            directions: 0,
            tallies: 0,
        })
    }

    /// Make the engine of a carrier, which has no elements yet.
    pub fn carried(py: Python<'_>, shared: Arc<Shared>, drops: Vec<Py<PyAny>>) -> PyResult<Self> {
        FabricEngine::over(py, Inner::Carried(shared), drops)
    }

    /// Change the engine of each worker: at `now`, or at the current time if threads run. Other Python threads can run
    /// meanwhile.
    fn change(&mut self, py: Python<'_>, now: u64, mut action: impl FnMut(&mut Engine, u64) + Send) {
        match &mut self.inner {
            Inner::Alone(engine) => action(engine, now),
            Inner::Carried(shared) => {
                py.detach(|| shared.change(now, |carrier, now| action(&mut carrier.engine, now)));
            }
        }
    }

    /// Pass an input at a port to the engine of the port's worker.
    fn input<R: Send>(
        &mut self,
        py: Python<'_>,
        port: PortId,
        now: u64,
        action: impl FnOnce(&mut Engine, u64) -> R + Send,
    ) -> R {
        let owner = self.ports[port as usize];
        match &mut self.inner {
            Inner::Alone(engine) => action(engine, now),
            Inner::Carried(shared) => {
                py.detach(|| shared.input(owner, now, |carrier, now| action(&mut carrier.engine, now)))
            }
        }
    }

    /// Add an element without events to the engine of each worker, or query it; return the result of the first worker.
    fn each<R: Send>(&mut self, py: Python<'_>, mut action: impl FnMut(&mut Engine) -> R + Send) -> R {
        match &mut self.inner {
            Inner::Alone(engine) => action(engine),
            Inner::Carried(shared) => py.detach(|| shared.each(|carrier| action(&mut carrier.engine))),
        }
    }

    /// Query the engine of the worker that owns all links with credits.
    fn look<R: Send>(&mut self, py: Python<'_>, action: impl FnOnce(&mut Engine) -> R + Send) -> R {
        match &mut self.inner {
            Inner::Alone(engine) => action(engine),
            Inner::Carried(shared) => py.detach(|| action(&mut shared.lock(0).engine)),
        }
    }

    /// Note the worker of a port that was just added or cabled.
    fn note_owner(&mut self, py: Python<'_>, port: PortId) {
        let owner = self.look(py, |engine| engine.owner(port));
        let index = port as usize;
        self.ports.resize(self.ports.len().max(index + 1), owner);
        self.ports[index] = owner;
    }

    /// Return the next output. Args: takes: if none is left here, take those of the carrier.
    fn next_output<'py>(&mut self, py: Python<'py>, takes: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (outputs, drops) = (&self.outputs, &self.drops);
        match &mut self.inner {
            Inner::Alone(engine) => {
                let output = engine.poll_output();
                output.map(|output| outputs.object(py, engine.packets(), drops, output)).transpose()
            }
            Inner::Carried(shared) => {
                if takes && self.taken.is_empty() {
                    self.taken = py.detach(|| shared.take_outputs())?;
                }
                let output = self.taken.pop_front();
                output.map(|output| outputs.object(py, &mut Packets::default(), drops, output)).transpose()
            }
        }
    }

    fn reason(&self, py: Python<'_>, drop: Option<Drop>) -> Option<Py<PyAny>> {
        drop.map(|drop| self.drops[drop as usize].clone_ref(py))
    }

    fn port(&self, port: u32) -> PyResult<()> {
        known("HFI ports", port, self.ports.len())
    }

    fn switch(&self, switch: u32) -> PyResult<()> {
        known("switches", switch, self.switches)
    }

    fn direction(&self, direction: u32) -> PyResult<()> {
        known("link directions", direction, self.directions)
    }

    fn end(&self, end: EndArgs) -> PyResult<End> {
        let Some((number, port_num)) = end else { return Ok(End::Boundary) };
        match port_num {
            None => self.port(number).map(|()| End::Hfi(number)),
            Some(port_num) => self.switch(number).map(|()| End::Switch(number, port_num)),
        }
    }
}

fn no_token(token: u64) -> PyErr {
    PyKeyError::new_err(format!("no room is held under token {token}"))
}

#[pymethods]
impl FabricEngine {
    #[new]
    fn new(py: Python<'_>, drops: Vec<Py<PyAny>>) -> PyResult<Self> {
        FabricEngine::over(py, Inner::Alone(Box::default()), drops)
    }

    fn add_port(&mut self, py: Python<'_>) -> u32 {
        let port = self.each(py, Engine::add_port);
        self.note_owner(py, port);
        port
    }

    fn add_switch(&mut self, py: Python<'_>) -> u32 {
        self.switches += 1;
        self.each(py, Engine::add_switch)
    }

    fn add_port0(&mut self, py: Python<'_>, switch: u32) -> PyResult<u32> {
        self.switch(switch)?;
        let port = self.each(py, |engine| engine.add_port0(switch));
        self.note_owner(py, port);
        Ok(port)
    }

    fn add_link(
        &mut self,
        py: Python<'_>,
        ends: (EndArgs, EndArgs),
        configs: [LinkArgs; 2],
        flows: [Option<FlowArgs>; 2],
        streams: [(u64, u64); 2],
    ) -> PyResult<u32> {
        let ends = [self.end(ends.0)?, self.end(ends.1)?];
        let [there, back] = flows.map(|flow| flow.map(FlowArgs::build).transpose());
        let flows = [there?, back?];
        let streams = streams.map(|(faults, jitter)| (Stream::new(faults), Stream::new(jitter)));
        self.directions += 2;
        let configs = configs.map(|config| config.build(true));
        let ways = [0, 1].map(|side| (&configs[side], flows[side].as_ref()));
        let first = self.each(py, |engine| engine.add_link(ends, ways, streams));
        if let Inner::Carried(shared) = &self.inner {
            py.detach(|| shared.lock_all().settle_vports(0))?; // those of a port that another worker has now
        }
        for end in ends {
            if let End::Hfi(port) = end {
                self.note_owner(py, port);
            }
        }
        Ok(first)
    }

    fn set_port(&mut self, py: Python<'_>, now: u64, port: u32, config: PortArgs) -> PyResult<()> {
        self.port(port)?;
        let config = config.build()?;
        self.change(py, now, |engine, now| engine.set_port(now, port, config.clone()));
        Ok(())
    }

    fn stall_port(&mut self, py: Python<'_>, now: u64, port: u32, stalled: bool) -> PyResult<()> {
        self.port(port)?;
        self.change(py, now, |engine, now| engine.stall_port(now, port, stalled));
        Ok(())
    }

    fn set_switch(&mut self, py: Python<'_>, now: u64, switch: u32, up: bool) -> PyResult<()> {
        self.switch(switch)?;
        self.change(py, now, |engine, now| engine.set_switch(now, switch, up));
        Ok(())
    }

    fn set_switch_port(
        &mut self,
        py: Python<'_>,
        now: u64,
        switch: u32,
        port_num: PortNum,
        config: SwitchPortArgs,
    ) -> PyResult<()> {
        self.switch(switch)?;
        let config = config.build()?;
        self.change(py, now, |engine, now| engine.set_switch_port(now, switch, port_num, config.clone()));
        Ok(())
    }

    fn set_tables(
        &mut self,
        py: Python<'_>,
        now: u64,
        switch: u32,
        entries: &[u8],
        groups: &Bound<'_, PySequence>,
        mft: Vec<(u32, Vec<PortNum>)>,
    ) -> PyResult<()> {
        self.switch(switch)?;
        let (lft, mft) = (linear_table(entries, groups)?, multicast_table(mft));
        self.change(py, now, |engine, now| engine.set_tables(now, switch, lft.clone(), mft.clone()));
        Ok(())
    }

    fn set_link(
        &mut self,
        py: Python<'_>,
        now: u64,
        direction: u32,
        config: LinkArgs,
        up: bool,
    ) -> PyResult<()> {
        self.direction(direction)?;
        let config = config.build(up);
        self.change(py, now, |engine, now| engine.set_link(now, direction, &config));
        Ok(())
    }

    fn set_flow(&mut self, py: Python<'_>, now: u64, direction: u32, flow: FlowArgs) -> PyResult<()> {
        self.direction(direction)?;
        let flow = flow.build()?;
        self.change(py, now, |engine, now| engine.set_flow(now, direction, &flow));
        Ok(())
    }

    fn set_tally(&mut self, py: Python<'_>, tally: u32, seen: u64, hits: u64) {
        self.tallies = self.tallies.max(tally as usize + 1);
        let shared = Arc::new(Tally::new(seen, hits));
        self.each(py, |engine| engine.set_tally(tally, Arc::clone(&shared)));
    }

    fn set_rules(
        &mut self,
        py: Python<'_>,
        now: u64,
        direction: u32,
        rules: Vec<(RuleArgs, u32)>,
    ) -> PyResult<()> {
        self.direction(direction)?;
        let rules: Vec<FaultRule> =
            rules.into_iter().map(|(rule, tally)| rule.build(tally)).collect::<PyResult<_>>()?;
        for rule in &rules {
            known("tallies", rule.tally, self.tallies)?;
        }
        self.change(py, now, |engine, now| engine.set_rules(now, direction, rules.clone()));
        Ok(())
    }

    fn observe(&mut self, py: Python<'_>, now: u64, direction: u32, on: bool) -> PyResult<()> {
        self.direction(direction)?;
        self.change(py, now, |engine, now| engine.observe(now, direction, on));
        Ok(())
    }

    fn attach(
        &mut self,
        py: Python<'_>,
        now: u64,
        direction: u32,
        ring: &CaptureRing,
        interface: u32,
    ) -> PyResult<()> {
        self.direction(direction)?;
        ring.interface(interface)?;
        let ring = ring.shared();
        self.change(py, now, |engine, now| engine.attach(now, direction, Arc::clone(&ring), interface));
        Ok(())
    }

    fn detach(&mut self, py: Python<'_>, now: u64, direction: u32, ring: &CaptureRing) -> PyResult<()> {
        self.direction(direction)?;
        let ring = ring.shared();
        self.change(py, now, |engine, now| engine.detach(now, direction, &ring));
        Ok(())
    }

    fn forget(&mut self, py: Python<'_>, now: u64, ports: Vec<u32>, directions: Vec<u32>) -> PyResult<()> {
        ports.iter().try_for_each(|&port| self.port(port))?;
        directions.iter().try_for_each(|&direction| self.direction(direction))?;
        self.change(py, now, |engine, now| engine.forget(now, &ports, &directions));
        Ok(())
    }

    /// Return the drop reason with which the port refused the data.
    fn send(&mut self, py: Python<'_>, now: u64, port: u32, data: &[u8]) -> PyResult<Option<Py<PyAny>>> {
        self.port(port)?;
        let drop = self.input(py, port, now, |engine, now| engine.send(now, port, data));
        Ok(self.reason(py, drop))
    }

    /// Return the drop reason with which the port refused the packet.
    #[expect(
        clippy::too_many_arguments,
        reason = "they are those of Engine.inject, and a tuple more would cost each packet"
    )]
    fn inject(
        &mut self,
        py: Python<'_>,
        now: u64,
        port: u32,
        packet: &[u8],
        slid: u32,
        dlid: u32,
        pkey: u16,
    ) -> PyResult<Option<Py<PyAny>>> {
        self.port(port)?;
        let address = Address { slid, dlid, pkey };
        let drop = self.input(py, port, now, |engine, now| {
            let packet = engine.packets().copy(packet);
            engine.inject(now, port, packet, address)
        });
        Ok(self.reason(py, drop))
    }

    /// Return the drop reason with which port 0 refused the data.
    fn direct(
        &mut self,
        py: Python<'_>,
        now: u64,
        port: u32,
        out_port: PortNum,
        data: &[u8],
    ) -> PyResult<Option<Py<PyAny>>> {
        self.port(port)?;
        if !self.look(py, |engine| engine.is_port0(port)) {
            return Err(PyValueError::new_err(format!("port {port} is not port 0 of a switch")));
        }
        let drop = self.input(py, port, now, |engine, now| engine.direct(now, port, out_port, data));
        Ok(self.reason(py, drop))
    }

    /// Take records of packets that have left the engine at the other end of a link.
    fn arrive(
        &mut self,
        py: Python<'_>,
        now: u64,
        direction: u32,
        records: Vec<PyBackedBytes>,
    ) -> PyResult<()> {
        self.direction(direction)?;
        let takes = |engine: &mut Engine, now: u64| {
            for record in &records {
                let record = Record::of(record);
                let packet = record.packet(engine.packets());
                engine.cross(now, direction, packet, record.hops());
            }
        };
        match &mut self.inner {
            Inner::Alone(engine) => takes(engine, now),
            Inner::Carried(shared) => {
                py.detach(|| shared.input(0, now, |carrier, now| takes(&mut carrier.engine, now)));
            }
        }
        Ok(())
    }

    fn keep(&mut self, py: Python<'_>, token: u64) -> PyResult<()> {
        if self.look(py, |engine| engine.keep(token)) { Ok(()) } else { Err(no_token(token)) }
    }

    fn release(&mut self, py: Python<'_>, now: u64, token: u64) -> PyResult<()> {
        let found = match &mut self.inner {
            Inner::Alone(engine) => engine.release(now, token),
            Inner::Carried(shared) => {
                py.detach(|| shared.input(0, now, |carrier, now| carrier.engine.release(now, token)))
            }
        };
        if found { Ok(()) } else { Err(no_token(token)) }
    }

    fn handle_timeout(&mut self, py: Python<'_>, now: u64) {
        self.change(py, now, |engine, now| engine.handle_timeout(now));
    }

    #[getter]
    fn deadline(&mut self, py: Python<'_>) -> Option<u64> {
        match &mut self.inner {
            _ if !self.taken.is_empty() => Some(0),
            Inner::Alone(engine) if engine.has_output() => Some(0),
            Inner::Alone(engine) => engine.deadline(),
            Inner::Carried(shared) => py.detach(|| shared.deadline()),
        }
    }

    fn poll_output<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.next_output(py, true)
    }

    /// Handle due events, and return all outputs.
    fn step<'py>(&mut self, py: Python<'py>, now: u64) -> PyResult<Bound<'py, PyTuple>> {
        self.handle_timeout(py, now);
        let mut outputs = Vec::new();
        while let Some(output) = self.next_output(py, outputs.is_empty())? {
            outputs.push(output);
        }
        if outputs.is_empty() { Ok(PyTuple::empty(py)) } else { PyTuple::new(py, outputs) }
    }

    fn is_stopped(&mut self, py: Python<'_>, port: u32) -> PyResult<bool> {
        self.port(port)?;
        Ok(self.look(py, |engine| engine.is_stopped(port)))
    }

    fn is_holding(&mut self, py: Python<'_>, direction: u32) -> PyResult<bool> {
        self.direction(direction)?;
        let mut is_holding = false;
        self.each(py, |engine| is_holding |= engine.is_holding(direction));
        Ok(is_holding)
    }

    /// Bytes that wait for credits on the VL of a service channel.
    fn waiting_on(&mut self, py: Python<'_>, direction: u32, sc: u32) -> PyResult<u64> {
        self.direction(direction)?;
        Ok(self.look(py, |engine| engine.waiting_on(direction, sc % 32)))
    }

    fn lanes(&mut self, py: Python<'_>, direction: u32) -> PyResult<Option<LaneStatus>> {
        self.direction(direction)?;
        let lanes = self.look(py, |engine| engine.lanes(direction));
        Ok(lanes.map(|lanes| {
            (lanes.credits, lanes.waiting, lanes.occupied, lanes.fecn_marked, lanes.blocked, lanes.held)
        }))
    }

    fn vl_counters(
        &mut self,
        py: Python<'_>,
        now: u64,
        direction: u32,
    ) -> PyResult<((u64, u64, u64), Vec<VlRow>)> {
        self.direction(direction)?;
        let (mut all, mut rows) = (Uncounted::default(), Vec::new());
        self.change(py, now, |engine, now| {
            let (more, vls) = engine.vl_counters(now, direction);
            all += more;
            rows.resize_with(vls.len().max(rows.len()), VlCounters::default);
            rows.iter_mut().zip(vls).for_each(|(row, vl)| *row += vl);
        });
        let row =
            |vl: &VlCounters| (vl.packets, vl.bytes, vl.wait_ns, vl.discards, vl.overflows, vl.fecn, vl.becn);
        Ok(((all.too_long, all.fecn, all.becn), rows.iter().map(row).collect()))
    }

    fn wire_counters(&mut self, py: Python<'_>, now: u64, direction: u32) -> PyResult<WireCounts> {
        self.direction(direction)?;
        let mut wire = WireCounters::default();
        self.change(py, now, |engine, now| wire += engine.wire_counters(now, direction));
        Ok((wire.multicast, wire.fecn, wire.becn, wire.errors, wire.recent_errors))
    }

    fn port_errors<'py>(&mut self, py: Python<'py>, now: u64, end: EndArgs) -> PyResult<Vec<ErrorRow<'py>>> {
        let end = self.end(end)?;
        let mut errors = PortErrors::default();
        self.change(py, now, |engine, now| errors.add(engine.port_errors(now, end)));
        let row = |error: &PortError| {
            let reason = self.drops[error.reason as usize].clone_ref(py);
            (reason, error.packets, PyBytes::new(py, &error.first))
        };
        Ok(errors.all().iter().map(row).collect())
    }

    fn forget_errors(&mut self, py: Python<'_>, now: u64, end: EndArgs, reasons: Vec<usize>) -> PyResult<()> {
        let end = self.end(end)?;
        self.change(py, now, |engine, now| {
            engine.forget_errors(now, end, |reason| reasons.contains(&(reason as usize)));
        });
        Ok(())
    }

    fn take_counts<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let counts = PyList::empty(py);
        let mut taken = Vec::new();
        self.each(py, |engine| taken.extend(engine.take_counted()));
        for counted in taken {
            counts.append(counted_tuple(py, &counted)?)?;
        }
        Ok(counts)
    }
}
