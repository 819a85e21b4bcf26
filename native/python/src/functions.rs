//! Functions without an engine: parts of the datapath for tests and conformance runs, and the plain forwarder.

use std::os::fd::RawFd;

use engine::link::capture;
use offload::segment::Segments;
use offload::vnet::{SIZE, VnetHeader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wire::frame::parse;

#[pyfunction]
pub fn icrc(packet: &[u8]) -> PyResult<u32> {
    if packet.len() < wire::HEADER + wire::TRAILER {
        return Err(PyValueError::new_err(format!("{} bytes are not a 16B packet", packet.len())));
    }
    Ok(wire::icrc::icrc(packet))
}

#[pyfunction]
pub fn check(packet: &[u8]) -> Option<&'static str> {
    wire::check(packet, true).err().map(|fault| match fault {
        wire::Fault::Truncated => "rx_truncated",
        wire::Fault::L2 => "rx_l2",
        wire::Fault::Length => "rx_length",
        wire::Fault::Icrc => "rx_icrc",
    })
}

#[pyfunction]
pub fn hash15(frame: &[u8]) -> PyResult<u16> {
    if frame.len() < 14 {
        return Err(PyValueError::new_err(format!("{} bytes are not an Ethernet frame", frame.len())));
    }
    Ok(wire::flow::hash15(frame, &parse(frame)))
}

#[pyfunction]
pub fn segment<'py>(py: Python<'py>, header: [u8; SIZE], frame: &[u8]) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let refused = || PyValueError::new_err("the virtio-net header does not fit the frame");
    if frame.len() < 14 {
        return Err(refused());
    }
    let parsed = parse(frame);
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
pub fn relay(py: Python<'_>, a: RawFd, b: RawFd, stop: RawFd) -> PyResult<()> {
    Ok(py.detach(|| tap::relay::relay(a, b, stop))?)
}

/// Return how far whole enhanced packet blocks reach from `at` on, which have at most `room` bytes, and how many these
/// are. The reference is opavnic/observe/capture_copy.py.
#[pyfunction]
pub fn packet_blocks(data: &[u8], at: usize, room: usize) -> (usize, usize) {
    capture::whole(data, at, room)
}
