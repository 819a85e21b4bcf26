//! Arguments of the fabric engine: Python's dictionaries and numbers become the engine's structures.

use std::sync::Arc;

use engine::config::{PortConfig, PortNum, PortState, SwitchPortConfig, sorted};
use engine::hash::FastMap;
use engine::link::config::{
    Arbitration, Buffers, Egress, FlowControl, LinkConfig, MAX_VLS, SERVICE_CHANNELS, ScToSc,
};
use engine::link::rule::{FaultKind, FaultRule, Match};
use engine::switch::{GROUP_BASE, LinearTable, MulticastTable};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PySequence;

/// Return a number of Python as a whole one of 64 bits, the nearest that there is.
fn whole(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    match value.extract::<u64>() {
        Ok(number) => Ok(number),
        Err(_) => Ok(value.extract::<f64>()?.round_ties_even() as u64),
    }
}

/// A port of an HFI, or a switch with the number of its port; None: a port that another engine carries.
pub type EndArgs = Option<(u32, Option<PortNum>)>;

#[derive(FromPyObject)]
pub struct LinkArgs {
    // generated: link-option-arguments (made by `make generated` from hfi_sim/engine/link/config.py; do not edit)
    #[pyo3(from_py_with = whole)]
    rate_bps: u64,
    #[pyo3(from_py_with = whole)]
    latency_ns: u64,
    #[pyo3(from_py_with = whole)]
    jitter_ns: u64,
    #[pyo3(from_py_with = whole)]
    queue_bytes: u64,
    // end of generated
}

impl LinkArgs {
    pub fn build(self, up: bool) -> LinkConfig {
        LinkConfig {
            up,
            // generated: link-option-values (made by `make generated` from hfi_sim/engine/link/config.py; do not edit)
            rate_bps: self.rate_bps,
            latency_ns: self.latency_ns,
            jitter_ns: self.jitter_ns,
            queue_bytes: self.queue_bytes,
            // end of generated
        }
    }
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct FlowArgs {
    buffer_bytes: u64,
    sc_to_vl: [u8; SERVICE_CHANNELS],
    fecn_bytes: u64,
    weights: Vec<u32>,
    high: Vec<u8>,
    high_limit_bytes: Option<u64>,
    shared_bytes: u64,
    hoq_code: u8,
}

impl FlowArgs {
    pub fn build(self) -> PyResult<FlowControl> {
        let vls = self.weights.len();
        let exists = |vl: &u8| usize::from(*vl) < vls;
        if !(1..=16).contains(&vls) || self.weights.contains(&0) {
            return Err(PyValueError::new_err(format!(
                "the weights {:?} are not of 1 to 16 VLs",
                self.weights
            )));
        }
        if !self.sc_to_vl.iter().chain(&self.high).all(exists) {
            return Err(PyValueError::new_err(format!("VL out of range, expected 0 to {}", vls - 1)));
        }
        Ok(FlowControl {
            buffer_bytes: self.buffer_bytes,
            sc_to_vl: self.sc_to_vl,
            fecn_bytes: self.fecn_bytes,
            weights: self.weights,
            high: self.high.iter().fold(0, |high, vl| high | 1 << vl),
            high_limit_bytes: self.high_limit_bytes,
            shared_bytes: self.shared_bytes,
            hoq_code: self.hoq_code,
        })
    }
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct EgressArgs {
    sc_to_vl: Option<[u8; SERVICE_CHANNELS]>,
    vl_mtus: Option<[u32; MAX_VLS]>,
    arbitration: Option<ArbitrationArgs>,
    buffers: Option<BuffersArgs>,
    hoq_codes: Option<[u8; MAX_VLS]>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ArbitrationArgs {
    low: [u32; MAX_VLS],
    high: [u32; MAX_VLS],
    high_limit_bytes: Option<u64>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct BuffersArgs {
    dedicated: [u32; MAX_VLS],
    shared: [u32; MAX_VLS],
    overall_shared: u32,
}

impl EgressArgs {
    pub fn build(self) -> PyResult<Egress> {
        if self.sc_to_vl.is_some_and(|table| table.iter().any(|vl| usize::from(*vl) >= MAX_VLS)) {
            return Err(PyValueError::new_err(format!(
                "an SC to VL table names a VL that is not 0 to {}",
                MAX_VLS - 1
            )));
        }
        let arbitration = |args: ArbitrationArgs| {
            let ArbitrationArgs { low, high, high_limit_bytes } = args;
            Box::new(Arbitration { low, high, high_limit_bytes })
        };
        let buffers = |args: BuffersArgs| {
            Box::new(Buffers {
                dedicated: args.dedicated.map(u64::from),
                shared: args.shared.map(u64::from),
                overall_shared: args.overall_shared.into(),
            })
        };
        Ok(Egress {
            sc_to_vl: self.sc_to_vl,
            vl_mtus: self.vl_mtus,
            arbitration: self.arbitration.map(arbitration),
            buffers: self.buffers.map(buffers),
            hoq_codes: self.hoq_codes,
        })
    }
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct PortArgs {
    state: u8,
    egress: EgressArgs,
    lid: u32,
    lmc: u32,
    sendable: Vec<u16>,
    admitted: Vec<u16>,
    groups: Vec<u32>,
    any_group: bool,
}

impl PortArgs {
    pub fn build(self) -> PyResult<PortConfig> {
        let PortArgs { state, egress, lid, lmc, sendable, admitted, groups, any_group } = self;
        let mut config = PortConfig::new(port_state(state)?, lid, lmc, sendable, admitted, groups);
        config.any_group = any_group;
        config.egress = egress.build()?;
        Ok(config)
    }
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SwitchPortArgs {
    state: u8,
    egress: EgressArgs,
    pkeys_in: Option<Vec<u16>>,
    pkeys_out: Option<Vec<u16>>,
    sc_to_sc: Vec<(PortNum, ScToSc)>,
}

impl SwitchPortArgs {
    pub fn build(self) -> PyResult<SwitchPortConfig> {
        let exists = |sc: &u8| usize::from(*sc) < SERVICE_CHANNELS;
        if !self.sc_to_sc.iter().all(|(_, table)| table.iter().all(exists)) {
            return Err(PyValueError::new_err(format!(
                "an SC to SC table names an SC that is not 0 to {}",
                SERVICE_CHANNELS - 1
            )));
        }
        Ok(SwitchPortConfig {
            state: port_state(self.state)?,
            egress: self.egress.build()?,
            pkeys_in: self.pkeys_in.map(sorted),
            pkeys_out: self.pkeys_out.map(sorted),
            sc_to_sc: self.sc_to_sc.into(),
        })
    }
}

/// Return a state by its number in InfiniBand.
fn port_state(number: u8) -> PyResult<PortState> {
    match number {
        1 => Ok(PortState::Down),
        2 => Ok(PortState::Init),
        3 => Ok(PortState::Armed),
        4 => Ok(PortState::Active),
        _ => Err(PyValueError::new_err(format!("{number} is not the number of a port state: 1 to 4"))),
    }
}

#[derive(FromPyObject)]
pub struct MatchArgs {
    // generated: match-arguments (made by `make generated` from hfi_sim/engine/link/rule.py; do not edit)
    l4: Option<u32>,
    lid: Option<u32>,
    slid: Option<u32>,
    dlid: Option<u32>,
    sc: Option<u32>,
    vesw_id: Option<u32>,
    attr_id: Option<u32>,
    method: Option<u32>,
    // end of generated
}

impl MatchArgs {
    pub fn build(self) -> Match {
        Match {
            // generated: match-values (made by `make generated` from hfi_sim/engine/link/rule.py; do not edit)
            l4: self.l4,
            lid: self.lid,
            slid: self.slid,
            dlid: self.dlid,
            sc: self.sc,
            vesw_id: self.vesw_id,
            attr_id: self.attr_id,
            method: self.method,
            // end of generated
        }
    }
}

#[derive(FromPyObject)]
pub struct RuleArgs {
    number: u64,
    kind: String,
    chance: u64,
    #[pyo3(attribute("match"))]
    fits: MatchArgs,
    // generated: fault-option-arguments (made by `make generated` from hfi_sim/engine/link/rule.py; do not edit)
    count: Option<u64>,
    skip: u64,
    delay_ns: u64,
    bits: u64,
    copies: u64,
    behind: u64,
    hold_ns: u64,
    // end of generated
}

impl RuleArgs {
    pub fn build(self, tally: u32) -> PyResult<FaultRule> {
        let kind = FaultKind::named(&self.kind)
            .ok_or_else(|| PyValueError::new_err(format!("no fault of packets is a {:?}", self.kind)))?;
        Ok(FaultRule {
            number: self.number,
            kind,
            chance: self.chance,
            fits: self.fits.build(),
            tally,
            // generated: fault-option-values (made by `make generated` from hfi_sim/engine/link/rule.py; do not edit)
            count: self.count,
            skip: self.skip,
            delay_ns: self.delay_ns,
            bits: self.bits,
            copies: self.copies,
            behind: self.behind,
            hold_ns: self.hold_ns,
            // end of generated
        })
    }
}

/// Return the entries of a table, and those of the shared groups that the table names.
pub fn linear_table(entries: &[u8], shared: &Bound<'_, PySequence>) -> PyResult<LinearTable> {
    let mut groups = Vec::new();
    let mut known: FastMap<u32, u16> = FastMap::default();
    let mut numbers: Vec<u16> =
        entries.as_chunks().0.iter().map(|entry: &[u8; 2]| u16::from_ne_bytes(*entry)).collect();
    for entry in numbers.iter_mut().filter(|entry| **entry >= GROUP_BASE) {
        let number = *entry - GROUP_BASE;
        *entry = match known.get(&number.into()) {
            Some(entry) => *entry,
            None => {
                let ports: Vec<PortNum> = shared.get_item(number.into())?.extract()?;
                if ports.is_empty() {
                    return Err(PyValueError::new_err(format!(
                        "group {number} of a forwarding table is empty"
                    )));
                }
                let entry = GROUP_BASE + groups.len() as u16;
                groups.push(ports.into());
                known.insert(number.into(), entry);
                entry
            }
        };
    }
    Ok(LinearTable { entries: numbers.into(), groups })
}

pub fn multicast_table(groups: Vec<(u32, Vec<PortNum>)>) -> MulticastTable {
    let row = |(lid, mut ports): (u32, Vec<PortNum>)| {
        ports.sort_unstable();
        ports.dedup();
        (lid, Arc::from(ports))
    };
    groups.into_iter().map(row).collect()
}
