//! The gate of a carrier to other machines: packets leave and arrive by native threads, and never become Python objects.

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;

use cluster::connection::{Connection, Credentials};
use cluster::link::Link;
use cluster::peer::Peer;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tap::shared::Shared;

/// The files of the CA, of the certificate and of its key, and whether this machine has accepted the connection.
type Files = (PathBuf, PathBuf, PathBuf, bool);
/// Packets sent, reported, received, and bytes received.
type Counts = (u64, u64, u64, u64);

/// A connection to another machine, before a gate carries packets over it.
#[pyclass(frozen)]
pub struct MachineConnection(Arc<Connection>);

#[pymethods]
impl MachineConnection {
    /// Take over a connected socket, and shake hands where there are credentials. It blocks.
    #[new]
    #[pyo3(signature = (fd, files=None))]
    fn new(py: Python<'_>, fd: RawFd, files: Option<Files>) -> PyResult<Self> {
        let socket = tap::duplicate(fd)?;
        let opened = py.detach(|| {
            let credentials = files.as_ref().map(|(ca, certificate, key, accepts)| Credentials {
                ca,
                certificate,
                key,
                accepts: *accepts,
            });
            Connection::open(socket, credentials)
        });
        Ok(MachineConnection(Arc::new(opened?)))
    }

    /// The certificate of the other machine, in DER.
    #[getter]
    fn certificate<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.certificate().map(|der| PyBytes::new(py, &der))
    }
}

#[pyclass(frozen)]
pub struct Gate {
    shared: Arc<Shared>,
    peers: Vec<Peer>,
}

impl Gate {
    /// Open the gate of a carrier: packets that leave are no outputs any more. `peers`: of each other machine, the
    /// directions of each link, there and back.
    pub fn open(py: Python<'_>, shared: Arc<Shared>, peers: Vec<Vec<(u32, u32)>>) -> PyResult<Self> {
        let peers = py.detach(|| -> std::io::Result<_> {
            let leaving: Vec<Vec<_>> =
                peers.iter().map(|links| links.iter().map(|(leaves, _)| *leaves).collect()).collect();
            shared.departures.open(&leaving)?;
            shared.each(|carrier| carrier.engine.let_bursts_depart(true));
            let peer = |(taker, links): (usize, Vec<(u32, u32)>)| {
                let links = links.into_iter().map(|(leaves, arrives)| Link::new(leaves, arrives));
                Peer::new(Arc::clone(&shared), taker, links.collect())
            };
            peers.into_iter().enumerate().map(peer).collect()
        })?;
        Ok(Gate { shared, peers })
    }

    fn peer(&self, peer: usize) -> PyResult<&Peer> {
        self.peers.get(peer).ok_or_else(|| PyIndexError::new_err(format!("there is no machine {peer}")))
    }
}

#[pymethods]
impl Gate {
    /// Carry packets to and from a machine over a connection. `reported`: how many it has received of each link.
    fn connect(
        &self,
        py: Python<'_>,
        peer: usize,
        connection: &MachineConnection,
        reported: Vec<u64>,
    ) -> PyResult<()> {
        let (peer, connection) = (self.peer(peer)?, Arc::clone(&connection.0));
        Ok(py.detach(|| peer.connect(connection, &reported))?)
    }

    /// End the connection to a machine: nothing arrives any more.
    fn disconnect(&self, py: Python<'_>, peer: usize) -> PyResult<()> {
        let peer = self.peer(peer)?;
        py.detach(|| peer.disconnect());
        Ok(())
    }

    /// Count from 0 again what goes to and from a machine.
    fn begin(&self, peer: usize) -> PyResult<()> {
        self.peer(peer)?.begin();
        Ok(())
    }

    /// Readable when the connection to a machine has ended.
    fn ended_fd(&self, peer: usize) -> PyResult<RawFd> {
        Ok(self.peer(peer)?.ended().fd())
    }

    /// Of each link to a machine, the packets since `begin`.
    fn crossed(&self, peer: usize) -> PyResult<Vec<Counts>> {
        let crossed = self.peer(peer)?.links().iter().map(Link::crossed);
        Ok(crossed.map(|it| (it.sent, it.reported, it.received, it.received_bytes)).collect())
    }

    /// Drop the packets that wait in a direction as lost, because its machine has left.
    fn forget(&self, py: Python<'_>, now: u64, direction: u32) {
        py.detach(|| {
            let tokens = self.shared.departures.forget(direction);
            if !tokens.is_empty() {
                self.shared.input(0, now, |carrier, now| {
                    tokens.iter().for_each(|token| _ = carrier.engine.release(now, *token));
                });
            }
        });
    }

    /// Packets and bytes that left, overflows, lost packets, and packets that wait.
    fn counts(&self, direction: u32) -> (u64, u64, u64, u64, u64) {
        let counts = self.shared.departures.counts(direction);
        (counts.packets, counts.bytes, counts.overflows, counts.forgotten, counts.waiting)
    }
}
