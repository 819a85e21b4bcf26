//! Functions without an engine: parts of the datapath for tests and conformance runs, and the plain forwarder.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use engine::burst::Burst;
use engine::crossing::Frame;
use engine::link::capture;
use engine::outputs::Output;
use engine::testing::line::{Line, PAYLOAD};
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
pub fn flow_hash(frame: &[u8]) -> PyResult<u32> {
    if frame.len() < 14 {
        return Err(PyValueError::new_err(format!("{} bytes are not an Ethernet frame", frame.len())));
    }
    Ok(wire::flow::flow_hash(frame, &parse(frame)))
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

/// Send packets of 1 KiB over so many switches in a row, in batches of 500 on virtual time, without Python at the ends;
/// return how many arrive in a second.
#[pyfunction]
pub fn measure_line(py: Python<'_>, switches: u32, seconds: f64) -> PyResult<f64> {
    const BATCH: u64 = 500;
    const STEP_NS: u64 = 1_000_000;
    let limit =
        Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))?;
    if switches == 0 {
        return Err(PyValueError::new_err("packets have to cross a switch"));
    }
    Ok(py.detach(|| {
        let mut line = Line::new(switches);
        let packet = line.packet(PAYLOAD);
        let (start, mut now, mut arrived) = (Instant::now(), 0, 0u64);
        while start.elapsed() < limit {
            for _ in 0..BATCH {
                // each packet has a buffer of its own, as those of a host
                let packet = line.engine.packets().copy(&packet);
                line.send(now, packet);
            }
            now += STEP_NS;
            line.engine.handle_timeout(now);
            while let Some(output) = line.engine.poll_output() {
                if let Output::Delivered { burst: Burst { packet, .. }, .. } = output {
                    line.engine.packets().recycle(packet);
                }
                arrived += 1;
            }
        }
        arrived as f64 / start.elapsed().as_secs_f64()
    }))
}

/// Kind, service channel, count, link, size and tag of a frame.
type FrameHead = (u8, u8, u16, u32, u16, u16);

/// Return what the frame that some bytes begin with says: kind, service channel, count, link, size, tag; None: they end
/// before it does. The reference is opavnic/cluster/protocol/frames.py.
#[pyfunction]
pub fn first_frame(data: &[u8]) -> PyResult<Option<FrameHead>> {
    let frame = Frame::first(data).map_err(|_| PyValueError::new_err("these bytes are no frame"))?;
    Ok(frame.map(|Frame { head, .. }| (head.kind as u8, head.sc, head.count, head.link, head.size, head.tag)))
}

/// Return how far whole enhanced packet blocks reach from `at` on, which have at most `room` bytes, and how many these
/// are. The reference is opavnic/observe/capture_copy.py.
#[pyfunction]
pub fn packet_blocks(data: &[u8], at: usize, room: usize) -> (usize, usize) {
    capture::whole(data, at, room)
}
