//! Once their buffers have grown, VNICs and the engine allocate nothing for a packet.

mod allocations;

use engine::testing::TwoHosts;
use engine::vnics::Host;
use offload::checksum::{fold, pseudo, put, sum};
use offload::vnet::{self, VnetHeader};

struct Nowhere;

impl Host for Nowhere {
    fn write(&mut self, _vport: usize, _parts: &[&[u8]]) -> bool {
        true
    }
}

/// A large TCP send to LID 2, a plain frame to everybody, and datagrams that can be merged.
fn frames() -> Vec<(VnetHeader, Vec<u8>)> {
    let mut tcp = vec![0x06, 0x2c, 0, 2, 0, 0, 0x06, 0x2c, 0, 1, 0, 0, 8, 0];
    tcp.extend([0x45, 0, 0xea, 0x88, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 9, 2, 1, 10, 9, 2, 2]);
    tcp.extend([0x13, 0x89, 0xc0, 1, 0, 0, 0, 1, 0, 0, 0, 7, 0x50, 0x10, 1, 2, 0, 0, 0, 0]);
    tcp.resize(54 + 59_988, 0x5a);
    let header = VnetHeader {
        flags: vnet::NEEDS_CSUM,
        gso_type: vnet::GSO_TCPV4,
        hdr_len: 54,
        gso_size: 1460,
        csum_start: 34,
        csum_offset: 16,
    };
    let mut broadcast = vec![0xff; 6];
    broadcast.extend([0x06, 0x2c, 0, 1, 0, 0, 0x88, 0xb5]);
    broadcast.resize(200, 1);
    let mut datagram = tcp[..14].to_vec();
    datagram.extend([0x45, 0, 0, 92, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 9, 2, 1, 10, 9, 2, 2]);
    datagram.extend([0x13, 0x89, 0xc0, 1, 0, 72, 0, 0]);
    datagram.resize(42 + 64, 0x5a);
    let ip_sum = !fold(sum(&datagram[14..34]));
    put(&mut datagram, 24, ip_sum);
    let udp_sum = fold(pseudo(&datagram[26..34], 17, 72));
    put(&mut datagram, 40, udp_sum);
    let open = VnetHeader { gso_type: vnet::GSO_NONE, gso_size: 0, csum_offset: 6, ..header };
    let mut frames = vec![(header, tcp), (VnetHeader::default(), broadcast)];
    frames.extend((0..DATAGRAMS).map(|_| (open, datagram.clone())));
    frames
}

const DATAGRAMS: u64 = 20;

#[test]
fn steady_state_allocates_nothing() {
    let mut bed = TwoHosts::default();
    bed.vnics.vports[1].take_datagrams_merged(true);
    let mut frames = frames();
    let mut burst = |bed: &mut TwoHosts| {
        for (header, frame) in &mut frames {
            let len = frame.len();
            bed.vnics.transmit(&mut bed.engine, bed.now, 0, header, (frame, len), None);
        }
        bed.settle(&mut Nowhere);
    };
    for _ in 0..10 {
        burst(&mut bed);
    }
    let before = allocations::count();
    for _ in 0..100 {
        burst(&mut bed);
    }
    let counters = &bed.vnics.vports[1].counters;
    let packets = 59_988u64.div_ceil(1460) + 1 + DATAGRAMS;
    assert_eq!(counters.rx.packets, 110 * packets);
    assert_eq!(counters.rx_merged, 110 * (59_988u64.div_ceil(1460) - 1 + DATAGRAMS - 1));
    assert_eq!(allocations::count(), before);
}
