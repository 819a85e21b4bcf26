//! The fast datapath of opavnic: see docs/datapath.md.
//!
//! The modules form layers: each may use only those below it, which tests/floors.rs enforces. The datapath knows apps
//! only as a trait. Apps themselves, such as `ejfat`, sit above everything else and are named only here.

pub mod app;
pub mod checksum;
pub mod core;
pub mod counters;
pub mod devices;
pub mod ejfat;
pub mod encap;
pub mod fabric;
pub mod frame;
pub mod gro;
pub mod hash;
pub mod preemption_backoff;
#[cfg(feature = "python")]
pub mod python;
pub mod random;
pub mod relay;
pub mod segment;
pub mod tap;
#[doc(hidden)]
pub mod testing;
pub mod vnet;
pub mod wire;
pub mod worker;

/// The Python module `opavnic._native`: the datapath, and each app that comes with it.
#[cfg(feature = "python")]
#[pyo3::pymodule]
fn _native(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
    python::register(module)?;
    ejfat::python::register(module)
}
