//! The fabric engine as a Python object: numbers, bytes and tuples in, the same out. It stands alone, driven by its
//! caller, or in a carrier; both look the same.

use std::sync::Arc;

use engine::api::Engine;
use engine::config::{End, PortNum};
use engine::counters::DROP_NAMES;
use engine::link::rule::{FaultRule, Tally};
use engine::link::vl_counters::VlCounters;
use engine::packet::Packets;
use engine::port::Address;
use engine::port_errors::PortError;
use engine::random::Stream;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySequence};
use tap::thread::Shared;

use crate::capture_ring::CaptureRing;
use crate::fabric_args::{
    EndArgs, FlowArgs, LinkArgs, PortArgs, RuleArgs, SwitchPortArgs, linear_table, multicast_table,
};
use crate::fabric_results::{ErrorRow, LaneStatus, VlRow, WireCounts, counted_tuple, output_tuple};

/// Who drives the engine: the caller alone, or a carrier, whose thread does so as well.
enum Inner {
    Alone(Box<Engine>),
    Carried(Arc<Shared>),
}

#[pyclass]
pub struct FabricEngine {
    inner: Inner,
    /// The drop reasons of Python, by number.
    drops: Vec<Py<PyAny>>,
    /// How many elements there are; only calls of this object add any.
    ports: usize,
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
    fn over(inner: Inner, drops: Vec<Py<PyAny>>) -> PyResult<Self> {
        if drops.len() != DROP_NAMES.len() {
            let text = format!("{} drop reasons were given, there are {}", drops.len(), DROP_NAMES.len());
            return Err(PyValueError::new_err(text));
        }
        Ok(FabricEngine { inner, drops, ports: 0, switches: 0, directions: 0, tallies: 0 })
    }

    /// Make the engine of a carrier, which has no elements yet.
    pub fn carried(shared: Arc<Shared>, drops: Vec<Py<PyAny>>) -> PyResult<Self> {
        FabricEngine::over(Inner::Carried(shared), drops)
    }

    /// Give an input to the engine: at `now`, or when the clock of a thread says. Python goes on while this waits.
    fn input<R: Send>(
        &mut self,
        py: Python<'_>,
        now: u64,
        action: impl FnOnce(&mut Engine, u64) -> R + Send,
    ) -> R {
        match &mut self.inner {
            Inner::Alone(engine) => action(engine, now),
            Inner::Carried(shared) => {
                py.detach(|| shared.input(now, |carrier, now| action(&mut carrier.engine, now)))
            }
        }
    }

    /// Look at the engine, or add something to it in which nothing happens yet.
    fn look<R: Send>(&mut self, py: Python<'_>, action: impl FnOnce(&mut Engine) -> R + Send) -> R {
        match &mut self.inner {
            Inner::Alone(engine) => action(engine),
            Inner::Carried(shared) => py.detach(|| action(&mut shared.lock().engine)),
        }
    }

    fn port(&self, port: u32) -> PyResult<()> {
        known("HFI ports", port, self.ports)
    }

    fn switch(&self, switch: u32) -> PyResult<()> {
        known("switches", switch, self.switches)
    }

    fn direction(&self, direction: u32) -> PyResult<()> {
        known("link directions", direction, self.directions)
    }

    fn end(&self, (number, port_num): EndArgs) -> PyResult<End> {
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
    fn new(drops: Vec<Py<PyAny>>) -> PyResult<Self> {
        FabricEngine::over(Inner::Alone(Box::default()), drops)
    }

    fn add_port(&mut self, py: Python<'_>) -> u32 {
        self.ports += 1;
        self.look(py, Engine::add_port)
    }

    fn add_switch(&mut self, py: Python<'_>) -> u32 {
        self.switches += 1;
        self.look(py, Engine::add_switch)
    }

    fn add_port0(&mut self, py: Python<'_>, switch: u32) -> PyResult<u32> {
        self.switch(switch)?;
        self.ports += 1;
        Ok(self.look(py, |engine| engine.add_port0(switch)))
    }

    fn add_link(
        &mut self,
        py: Python<'_>,
        ends: (EndArgs, EndArgs),
        config: LinkArgs,
        flow: Option<FlowArgs>,
        streams: [(u64, u64); 2],
    ) -> PyResult<u32> {
        let ends = [self.end(ends.0)?, self.end(ends.1)?];
        let flow = flow.map(FlowArgs::build).transpose()?;
        let streams = streams.map(|(faults, jitter)| (Stream::new(faults), Stream::new(jitter)));
        self.directions += 2;
        Ok(self.look(py, |engine| engine.add_link(ends, &config.build(), flow.as_ref(), streams)))
    }

    fn set_port(&mut self, py: Python<'_>, now: u64, port: u32, config: PortArgs) -> PyResult<()> {
        self.port(port)?;
        let config = config.build()?;
        self.input(py, now, |engine, now| engine.set_port(now, port, config));
        Ok(())
    }

    fn stall_port(&mut self, py: Python<'_>, now: u64, port: u32, stalled: bool) -> PyResult<()> {
        self.port(port)?;
        self.input(py, now, |engine, now| engine.stall_port(now, port, stalled));
        Ok(())
    }

    fn set_switch(&mut self, py: Python<'_>, now: u64, switch: u32, up: bool) -> PyResult<()> {
        self.switch(switch)?;
        self.input(py, now, |engine, now| engine.set_switch(now, switch, up));
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
        self.input(py, now, |engine, now| engine.set_switch_port(now, switch, port_num, config));
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
        self.input(py, now, |engine, now| engine.set_tables(now, switch, lft, mft));
        Ok(())
    }

    fn set_link(&mut self, py: Python<'_>, now: u64, direction: u32, config: LinkArgs) -> PyResult<()> {
        self.direction(direction)?;
        self.input(py, now, |engine, now| engine.set_link(now, direction, &config.build()));
        Ok(())
    }

    fn set_tally(&mut self, py: Python<'_>, tally: u32, seen: u64, hits: u64) {
        self.tallies = self.tallies.max(tally as usize + 1);
        self.look(py, |engine| engine.set_tally(tally, Arc::new(Tally::new(seen, hits))));
    }

    fn set_rules(&mut self, py: Python<'_>, now: u64, direction: u32, rules: Vec<RuleArgs>) -> PyResult<()> {
        self.direction(direction)?;
        let rules: Vec<FaultRule> = rules.into_iter().map(RuleArgs::build).collect::<PyResult<_>>()?;
        for rule in &rules {
            known("tallies", rule.tally, self.tallies)?;
        }
        self.input(py, now, |engine, now| engine.set_rules(now, direction, rules));
        Ok(())
    }

    fn observe(&mut self, py: Python<'_>, now: u64, direction: u32, on: bool) -> PyResult<()> {
        self.direction(direction)?;
        self.input(py, now, |engine, now| engine.observe(now, direction, on));
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
        self.input(py, now, |engine, now| engine.attach(now, direction, ring.shared(), interface));
        Ok(())
    }

    fn detach(&mut self, py: Python<'_>, now: u64, direction: u32, ring: &CaptureRing) -> PyResult<()> {
        self.direction(direction)?;
        self.input(py, now, |engine, now| engine.detach(now, direction, &ring.shared()));
        Ok(())
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
        let drop = self.input(py, now, |engine, now| {
            let packet = engine.packets().copy(packet);
            engine.inject(now, port, packet, address)
        });
        Ok(drop.map(|drop| self.drops[drop as usize].clone_ref(py)))
    }

    /// Return the drop reason with which port 0 refused the packet.
    #[expect(clippy::too_many_arguments, reason = "they are those of Engine.direct")]
    fn direct(
        &mut self,
        py: Python<'_>,
        now: u64,
        port: u32,
        out_port: PortNum,
        packet: &[u8],
        slid: u32,
        pkey: u16,
    ) -> PyResult<Option<Py<PyAny>>> {
        self.port(port)?;
        if !self.look(py, |engine| engine.is_port0(port)) {
            return Err(PyValueError::new_err(format!("port {port} is not port 0 of a switch")));
        }
        let drop = self.input(py, now, |engine, now| {
            let packet = engine.packets().copy(packet);
            engine.direct(now, port, out_port, packet, slid, pkey)
        });
        Ok(drop.map(|drop| self.drops[drop as usize].clone_ref(py)))
    }

    fn keep(&mut self, py: Python<'_>, token: u64) -> PyResult<()> {
        if self.look(py, |engine| engine.keep(token)) { Ok(()) } else { Err(no_token(token)) }
    }

    fn release(&mut self, py: Python<'_>, now: u64, token: u64) -> PyResult<()> {
        if self.input(py, now, |engine, now| engine.release(now, token)) {
            Ok(())
        } else {
            Err(no_token(token))
        }
    }

    fn handle_timeout(&mut self, py: Python<'_>, now: u64) {
        self.input(py, now, |engine, now| engine.handle_timeout(now));
    }

    #[getter]
    fn deadline(&mut self, py: Python<'_>) -> Option<u64> {
        match &mut self.inner {
            Inner::Alone(engine) if engine.has_output() => Some(0),
            Inner::Alone(engine) => engine.deadline(),
            Inner::Carried(shared) => py.detach(|| {
                let carrier = &mut *shared.lock();
                if carrier.outbox.is_empty() { carrier.deadline() } else { Some(0) }
            }),
        }
    }

    /// Do what is due, and return all outputs and the next deadline.
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        now: u64,
    ) -> PyResult<(Option<Bound<'py, PyList>>, Option<u64>)> {
        self.handle_timeout(py, now);
        let outputs = self.take_outputs(py)?;
        let outputs = if outputs.is_empty() { None } else { Some(outputs) };
        Ok((outputs, self.deadline(py)))
    }

    fn take_outputs<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let outputs = PyList::empty(py);
        match &mut self.inner {
            Inner::Alone(engine) => {
                while let Some(output) = engine.poll_output() {
                    outputs.append(output_tuple(py, engine.packets(), output)?)?;
                }
            }
            Inner::Carried(shared) => {
                let mut packets = Packets::default();
                for output in py.detach(|| shared.take_outputs())? {
                    outputs.append(output_tuple(py, &mut packets, output)?)?;
                }
            }
        }
        Ok(outputs)
    }

    fn is_stopped(&mut self, py: Python<'_>, port: u32) -> PyResult<bool> {
        self.port(port)?;
        Ok(self.look(py, |engine| engine.is_stopped(port)))
    }

    fn is_holding(&mut self, py: Python<'_>, direction: u32) -> PyResult<bool> {
        self.direction(direction)?;
        Ok(self.look(py, |engine| engine.is_holding(direction)))
    }

    fn lanes(&mut self, py: Python<'_>, direction: u32) -> PyResult<Option<LaneStatus>> {
        self.direction(direction)?;
        let lanes = self.look(py, |engine| engine.lanes(direction));
        Ok(lanes.map(|lanes| (lanes.credits, lanes.waiting, lanes.fecn_marked)))
    }

    fn vl_counters(
        &mut self,
        py: Python<'_>,
        now: u64,
        direction: u32,
    ) -> PyResult<((u64, u64, u64), Vec<VlRow>)> {
        self.direction(direction)?;
        let (more, rows) = self.input(py, now, |engine, now| engine.vl_counters(now, direction));
        let row =
            |vl: &VlCounters| (vl.packets, vl.bytes, vl.wait_ns, vl.discards, vl.overflows, vl.fecn, vl.becn);
        Ok(((more.too_long, more.fecn, more.becn), rows.iter().map(row).collect()))
    }

    fn wire_counters(&mut self, py: Python<'_>, now: u64, direction: u32) -> PyResult<WireCounts> {
        self.direction(direction)?;
        let wire = self.input(py, now, |engine, now| engine.wire_counters(now, direction));
        Ok((wire.multicast, wire.fecn, wire.becn, wire.errors, wire.recent_errors))
    }

    fn port_errors<'py>(&mut self, py: Python<'py>, now: u64, end: EndArgs) -> PyResult<Vec<ErrorRow<'py>>> {
        let end = self.end(end)?;
        let errors = self.input(py, now, |engine, now| engine.port_errors(now, end).to_vec());
        let row = |error: &PortError| {
            let reason = self.drops[error.reason as usize].clone_ref(py);
            (reason, error.packets, PyBytes::new(py, &error.first))
        };
        Ok(errors.iter().map(row).collect())
    }

    fn forget_errors(&mut self, py: Python<'_>, now: u64, end: EndArgs, reasons: Vec<usize>) -> PyResult<()> {
        let end = self.end(end)?;
        self.input(py, now, |engine, now| {
            engine.forget_errors(now, end, |reason| reasons.contains(&(reason as usize)))
        });
        Ok(())
    }

    fn take_counts<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let counts = PyList::empty(py);
        for counted in self.look(py, Engine::take_counted) {
            counts.append(counted_tuple(py, &counted)?)?;
        }
        Ok(counts)
    }
}
