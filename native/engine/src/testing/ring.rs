//! Switches in a ring with two HFI ports on each, and a multicast tree that leaves one link out: for tests of the engine.
//! Port N has LID N + 1 and link N, and port 0 of the switches, where they have one, has the numbers after that.

use std::sync::Arc;

use super::line::one_lane;
use super::star::{GROUP, PKEY};
use crate::api::Engine;
use crate::config::{End, PortConfig, PortNum, PortState, SwitchPortConfig};
use crate::link::config::{FlowControl, LinkConfig};
use crate::random::Stream;
use crate::switch::{GROUP_BASE, LinearTable};

pub const SWITCHES: u32 = 4;
pub const PORTS: u32 = 8;
/// The directions of the links between switches, each to the next one.
pub const RING: u32 = 2 * PORTS;

/// See the module, for an empty engine.
///
/// Where `astray` is, the tables of one switch send LID 1 back to where it came from: a forwarding loop.
pub fn ring(engine: &mut Engine, config: &LinkConfig, trunk_credits: bool, astray: bool) {
    let flow = one_lane();
    ring_over(engine, config, trunk_credits.then_some(&flow), None, astray);
}

/// The same with any credits on the links between switches, and on those to the HFI ports.
pub fn ring_over(
    engine: &mut Engine,
    config: &LinkConfig,
    trunks: Option<&FlowControl>,
    cables: Option<&FlowControl>,
    astray: bool,
) {
    (0..SWITCHES).for_each(|_| _ = engine.add_switch());
    let streams = |number: u32| {
        [1, 2].map(|end| {
            let seed = u64::from(number * 7 + end);
            (Stream::new(seed), Stream::new(!seed))
        })
    };
    for number in 0..PORTS {
        let port = engine.add_port();
        let pkeys = || vec![PKEY];
        engine.set_port(
            0,
            port,
            PortConfig::new(PortState::Active, number + 1, 0, pkeys(), pkeys(), vec![GROUP]),
        );
        let (switch, switch_port) = (number / 2, number as PortNum % 2 + 1);
        engine.set_switch_port(0, switch, switch_port, SwitchPortConfig::plain(PortState::Active));
        engine.add_link(
            [End::Hfi(port), End::Switch(switch, switch_port)],
            [(config, cables); 2],
            streams(number),
        );
    }
    for switch in 0..SWITCHES {
        let ends = [End::Switch(switch, 4), End::Switch((switch + 1) % SWITCHES, 3)];
        engine.set_switch_port(0, switch, 3, SwitchPortConfig::plain(PortState::Active));
        engine.set_switch_port(0, switch, 4, SwitchPortConfig::plain(PortState::Active));
        engine.add_link(ends, [(config, trunks); 2], streams(PORTS + switch));
    }
    for switch in 0..SWITCHES {
        let home = |lid: u32| if lid > PORTS { lid - PORTS - 1 } else { (lid - 1) / 2 };
        let way = |lid: u32| match home(lid) {
            home if home == switch && lid > PORTS => 0,
            home if home == switch => (lid as PortNum - 1) % 2 + 1,
            home if astray && lid == 1 && home != switch => 4 - (switch as PortNum & 1),
            home if (home + SWITCHES - switch) % SWITCHES == 2 => GROUP_BASE,
            home if (home + SWITCHES - switch) % SWITCHES == 1 => 4,
            _ => 3,
        };
        let entries = std::iter::once(0).chain((1..=PORTS + SWITCHES).map(way)).collect();
        let tree: Vec<PortNum> = match switch {
            0 => vec![1, 2, 4],
            3 => vec![1, 2, 3],
            _ => vec![1, 2, 3, 4],
        };
        let lft = LinearTable { entries, groups: vec![[3, 4].into()] };
        engine.set_tables(0, switch, lft, [(GROUP, Arc::from(tree))].into_iter().collect());
    }
}

/// Give each switch its port 0.
pub fn port0s(engine: &mut Engine) {
    for switch in 0..SWITCHES {
        let port = engine.add_port0(switch);
        let pkeys = || vec![PKEY];
        engine.set_port(0, port, PortConfig::new(PortState::Active, port + 1, 0, pkeys(), pkeys(), vec![]));
    }
}
