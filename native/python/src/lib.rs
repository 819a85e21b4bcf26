//! What the crates below look like from Python; opavnic/_native.pyi declares the types.

mod capture_ring;
mod carrier;
mod counts;
mod fabric_args;
mod fabric_engine;
mod fabric_results;
mod functions;
mod gate;
mod load_balancer;
mod snapshot;
mod workers;

/// The Python module `opavnic._native`: the datapath, and each app that comes with it.
#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::capture_ring::CaptureRing;
    #[pymodule_export]
    use crate::carrier::Carrier;
    #[pymodule_export]
    use crate::fabric_engine::FabricEngine;
    #[pymodule_export]
    use crate::functions::{
        check, first_frame, flow_hash, icrc, measure_line, packet_blocks, relay, segment,
    };
    #[pymodule_export]
    use crate::gate::{Gate, MachineConnection};
    #[pymodule_export]
    use crate::load_balancer::{EjfatPipeline, EjfatPort, EjfatReflector};
    #[pymodule_export]
    use crate::workers::measure_workers;
    #[pymodule_export]
    const VNET_HEADER_SIZE: usize = offload::vnet::SIZE;
    /// The checksum of the sources that it was built of: build.rs.
    #[pymodule_export]
    const SOURCES: &str = env!("OPAVNIC_SOURCES");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("EJFAT_DROPS", ejfat::drops::DROP_NAMES.to_vec())
    }
}
