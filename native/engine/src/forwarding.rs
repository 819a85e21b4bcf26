//! Rules that every engine keeps, as pure functions: hfi_sim/engine/forwarding.py states the same in Python.
//!
//! The hop count of a packet is the number of switches it has reached. It is kept beside the packet, not on the wire.

use crate::config::PortState;
use crate::link::config::ScToSc;
use crate::packet::sc;

/// The service channel of subnet management.
pub const SC_MANAGEMENT: u32 = 15;

/// Whether a packet is in a forwarding loop: it has visited more switches than the fabric has.
#[inline]
pub fn is_astray(hops: u32, switches: u32) -> bool {
    hops > switches
}

/// Which of several equal paths a packet takes; `hops` includes this switch.
///
/// The entropy is a number to the base `paths`. Each switch on the path uses a different digit, the first switch the
/// last digit. If all used the same digit, the first choice would fix the choices of all later switches.
#[inline]
pub fn path_of(entropy: u32, paths: usize, hops: u32) -> usize {
    let base = paths as u32;
    (entropy / base.saturating_pow(hops.saturating_sub(1)) % base) as usize
}

/// Whether a packet is one of subnet management: it is on SC15. One too short for a header is not.
#[inline]
pub fn is_management(packet: &[u8]) -> bool {
    sc(packet) == SC_MANAGEMENT
}

/// The service channel on which a switch forwards a packet from `sc`; None: that channel carries no data, and the
/// packet is dropped. Subnet management stays on SC15, and no other traffic enters it.
pub fn sc_leaving(sc: u32, table: &ScToSc) -> Option<u32> {
    if sc == SC_MANAGEMENT {
        return Some(sc);
    }
    Some(table[sc as usize].into()).filter(|sc| *sc != SC_MANAGEMENT)
}

/// Whether a port in this state lets a packet in or out: ACTIVE any; INIT and ARMED those of subnet management, which is
/// to bring the port to ACTIVE; DOWN none.
#[inline]
pub fn lets_pass(state: PortState, packet: &[u8]) -> bool {
    state == PortState::Active || (state != PortState::Down && is_management(packet))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_management_passes_a_port_that_is_not_active_yet() {
        let data = [0u8; 24];
        let mut management = data;
        management[6] = 15 << 4;
        let passes = |packet: &[u8]| {
            [PortState::Down, PortState::Init, PortState::Armed, PortState::Active]
                .map(|state| lets_pass(state, packet))
        };
        assert_eq!(passes(&data), [false, false, false, true]);
        assert_eq!(passes(&management), [false, true, true, true]);
        assert_eq!(passes(&management[..15]), [false, false, false, true]);
    }

    #[test]
    fn each_switch_on_the_way_takes_another_digit_of_the_entropy() {
        // 7 is 021 to the base 3
        assert_eq!([1, 2, 3, 4, u32::MAX].map(|hops| path_of(7, 3, hops)), [1, 2, 0, 0, 0]);
        assert_eq!([1, 2].map(|hops| path_of(7, 1, hops)), [0, 0]);
    }

    #[test]
    fn nothing_but_management_is_on_its_channel() {
        let mut table = [3; 32];
        table[4] = 15;
        assert_eq!([0, 4, 15, 31].map(|sc| sc_leaving(sc, &table)), [Some(3), None, Some(15), Some(3)]);
    }
}
