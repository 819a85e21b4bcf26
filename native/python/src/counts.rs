//! What was counted, as dictionaries for Python.

use engine::core::{Core, Vport};
use engine::counters::{DROP_NAMES, Element, FaultCount, Tally, Traffic, Vnic};
use pyo3::prelude::*;
use pyo3::types::PyDict;

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

/// What a vport has counted since the last time: as the driver does, and as balances of both directions.
pub type VportHarvest = (Vnic, Element, Element);

pub fn take_vport(vport: &mut Vport) -> VportHarvest {
    use std::mem::take;
    (take(&mut vport.counters), take(&mut vport.tx_balance), take(&mut vport.rx_balance))
}

pub fn vport_dict<'py>(py: Python<'py>, (vnic, tx, rx): &VportHarvest) -> PyResult<Bound<'py, PyDict>> {
    let dict = vnic_dict(py, vnic)?;
    dict.set_item("tx_balance", element_dict(py, tx)?)?;
    dict.set_item("rx_balance", element_dict(py, rx)?)?;
    Ok(dict)
}

/// What has been counted since the last time, taken from the core under its lock.
pub struct Harvest {
    port_tx: Vec<Element>,
    port_rx: Vec<Element>,
    switches: Vec<Element>,
    directions: Vec<[Element; 2]>,
    faults: Vec<[Vec<FaultCount>; 2]>,
    /// Random words drawn, by link and end.
    pub drawn: Vec<[u64; 2]>,
    vports: Vec<(usize, VportHarvest)>,
}

impl Harvest {
    pub fn take(core: &mut Core) -> Self {
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

    pub fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
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
