//! Counters as dictionaries for Python.

use engine::counters::{DROP_NAMES, Element, Tally, Traffic, Vnic};
use engine::vnics::vport::Vport;
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

/// The counts of a vport since the last call: the driver's counters, and the balances of both directions.
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
