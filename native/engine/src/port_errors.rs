//! Drops by port, with the first dropped packet, for example for a performance agent.
//!
//! Each element counts its drops in its own counters, a switch for all its ports together. Here they are also noted for
//! each port, with the header of the first packet. Only drops cost time.

use wire::HEADER;

use crate::counters::Drop;

/// The drops of a port for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortError {
    pub reason: Drop,
    pub packets: u64,
    /// The header, or less where it had no more, of the first packet since the last `forget`; empty: none.
    pub first: Box<[u8]>,
}

/// The drops of one port, or of one port of a switch.
#[derive(Clone, Debug, Default)]
pub struct PortErrors(Vec<PortError>);

impl PortErrors {
    /// Note a packet that the port drops.
    #[cold]
    pub fn note(&mut self, reason: Drop, packet: &[u8]) {
        let errors = &mut self.0;
        let index = errors.iter().position(|error| error.reason == reason).unwrap_or_else(|| {
            errors.push(PortError { reason, packets: 0, first: Box::default() });
            errors.len() - 1
        });
        let error = &mut errors[index];
        error.packets += 1;
        if error.first.is_empty() {
            error.first = packet[..packet.len().min(HEADER)].into();
        }
    }

    /// Add the drops that another worker has noted for the same port; the own first packet takes precedence.
    pub fn add(&mut self, others: &[PortError]) {
        for other in others {
            match self.0.iter_mut().find(|error| error.reason == other.reason) {
                None => self.0.push(other.clone()),
                Some(error) => {
                    error.packets += other.packets;
                    if error.first.is_empty() {
                        error.first = other.first.clone();
                    }
                }
            }
        }
    }

    /// What was dropped.
    pub fn all(&self) -> &[PortError] {
        &self.0
    }

    /// Forget the first packet dropped for each reason that is meant: the next one takes its place.
    pub fn forget(&mut self, is_meant: impl Fn(Drop) -> bool) {
        for error in &mut self.0 {
            if is_meant(error.reason) {
                error.first = Box::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known of each reason: how many packets, and the first byte of the first.
    fn told(errors: &PortErrors) -> Vec<(Drop, u64, Option<u8>)> {
        errors.all().iter().map(|error| (error.reason, error.packets, error.first.first().copied())).collect()
    }

    #[test]
    fn drops_count_by_reason_with_the_first_packet_of_each_until_it_is_forgotten() {
        let mut errors = PortErrors::default();
        for (reason, packet) in [(Drop::SwMtu, 1), (Drop::SwDown, 2), (Drop::SwMtu, 3)] {
            errors.note(reason, &[packet; 20]);
        }
        assert_eq!(told(&errors), [(Drop::SwMtu, 2, Some(1)), (Drop::SwDown, 1, Some(2))]);
        assert_eq!(errors.all()[0].first[..], [1; HEADER]);
        errors.forget(|reason| reason == Drop::SwMtu);
        assert_eq!(told(&errors), [(Drop::SwMtu, 2, None), (Drop::SwDown, 1, Some(2))]);
        errors.note(Drop::SwMtu, &[4; 3]);
        assert_eq!(errors.all()[0].first[..], [4; 3]);
    }

    #[test]
    fn what_another_worker_has_noted_is_added_behind_the_own() {
        let noted = |drops: &[(Drop, u8)]| {
            let mut errors = PortErrors::default();
            drops.iter().for_each(|(reason, packet)| errors.note(*reason, &[*packet; 20]));
            errors
        };
        let mut errors = noted(&[(Drop::SwMtu, 1), (Drop::SwDown, 2)]);
        errors.forget(|reason| reason == Drop::SwDown);
        let others = [(Drop::SwDown, 3), (Drop::SwDown, 4), (Drop::SwMtu, 5), (Drop::SwSc, 6)];
        errors.add(noted(&others).all());
        assert_eq!(
            told(&errors),
            [(Drop::SwMtu, 2, Some(1)), (Drop::SwDown, 3, Some(3)), (Drop::SwSc, 1, Some(6))]
        );
    }
}
