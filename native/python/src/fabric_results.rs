//! Results of the fabric engine: its outputs and counters as tuples for Python.

use engine::api::Counted;
use engine::burst::Burst;
use engine::counters::Passing;
use engine::crossing::{TAG, tag_of};
use engine::outputs::Output;
use engine::packet::{Packet, Packets};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// Credits and waiting bytes of each VL; packets marked with FECN.
pub type LaneStatus = (Vec<u64>, Vec<u64>, Vec<u64>, u64, Vec<bool>, Vec<(u8, u32, u8, u32, u64)>);
/// Packets, bytes, nanoseconds waited, discards, overflows, FECN and BECN of one VL.
pub type VlRow = (u64, u64, u64, u64, u64, u64, u64);
/// Multicast, FECN, BECN, errors and recent errors of one direction.
pub type WireCounts = (u64, u64, u64, u64, u64);
/// A drop reason, packets, and the header of the first one.
pub type ErrorRow<'py> = (Py<PyAny>, u64, Bound<'py, PyBytes>);
/// In, copies, out, in flight; then pairs of the number of a drop reason and how many.
type Counts = ([u64; 5], i64, Vec<(usize, u64)>);

fn counts(passing: &Passing) -> Counts {
    let drops = passing.element.drops.iter().copied().enumerate().filter(|(_, packets)| *packets != 0);
    (passing.element.numbers().map(|(_, number)| number), passing.in_flight, drops.collect())
}

pub fn counted_tuple<'py>(py: Python<'py>, counted: &Counted) -> PyResult<Bound<'py, PyTuple>> {
    match counted {
        Counted::Port { port, counted } => {
            ("port", *port, counts(&counted.0), counts(&counted.1)).into_pyobject(py)
        }
        Counted::Congestion { port, counted: c } => {
            let numbers = [c.fecn_received, c.becn_sent, c.becn_received, c.tx_stops];
            ("congestion", *port, numbers).into_pyobject(py)
        }
        Counted::Switch { switch, counted } => ("switch", *switch, counts(counted)).into_pyobject(py),
        Counted::Direction { direction, counted, streams } => {
            ("direction", *direction, counts(counted), *streams).into_pyobject(py)
        }
        Counted::Tally { tally, seen, hits } => ("tally", *tally, *seen, *hits).into_pyobject(py),
    }
}

/// The classes of `hfi_sim.engine.events.outputs`, and what is in them.
pub struct Outputs {
    /// `tuple.__new__`, which makes a named tuple of its fields at once; its class would ask each by name.
    make: Py<PyAny>,
    delivered: Py<PyAny>,
    observed: Py<PyAny>,
    flow_changed: Py<PyAny>,
    rule_spent: Py<PyAny>,
    departed: Py<PyAny>,
}

impl Outputs {
    pub fn import(py: Python<'_>) -> PyResult<Self> {
        let module = py.import("hfi_sim.engine.events.outputs")?;
        let class = |name: &str| module.getattr(name).map(Bound::unbind);
        Ok(Outputs {
            make: py.get_type::<PyTuple>().getattr("__new__")?.unbind(),
            delivered: class("Delivered")?,
            observed: class("Observed")?,
            flow_changed: class("FlowChanged")?,
            rule_spent: class("RuleSpent")?,
            departed: class("Departed")?,
        })
    }

    /// Return an output as Python has it. Args: drops: the drop reasons of Python, by number.
    pub fn object<'py>(
        &self,
        py: Python<'py>,
        packets: &mut Packets,
        drops: &[Py<PyAny>],
        output: Output,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut bytes = |mut packet: Packet| {
            packets.seal(&mut packet);
            let bytes = PyBytes::new(py, &packet);
            packets.recycle(packet);
            bytes
        };
        let (class, fields) = match output {
            Output::Delivered { time, port, burst: Burst { packet, .. }, token, in_port } => {
                (&self.delivered, (time, port, bytes(packet), token, in_port).into_pyobject(py)?)
            }
            Output::Observed { time, direction, packet, drop } => {
                let drop = drop.map(|drop| &drops[drop as usize]);
                (&self.observed, (time, direction, bytes(packet), drop).into_pyobject(py)?)
            }
            Output::FlowChanged { time, port, stopped } => {
                (&self.flow_changed, (time, port, stopped).into_pyobject(py)?)
            }
            Output::Departed { time, direction, burst, token } => {
                // where bursts depart together, nothing that leaves is for Python
                let (tag, packet) = (tag_of(&burst.packet, burst.hops()), burst.packet);
                let record = PyBytes::new_with(py, packet.len() + TAG, |record| {
                    record[..packet.len()].copy_from_slice(&packet);
                    record[packet.len()..].copy_from_slice(&tag.to_be_bytes());
                    Ok(())
                })?;
                packets.recycle(packet);
                (&self.departed, (time, direction, record, token).into_pyobject(py)?)
            }
            Output::RuleSpent { time, rule } => (&self.rule_spent, (time, rule).into_pyobject(py)?),
        };
        self.make.bind(py).call1((class, fields))
    }
}
