//! What a packet costs from host to host, without a kernel: cut, sealed, carried over one switch, checked, merged.
//!
//! Arguments, for profilers: the one case to measure, `true` or `false` for its ICRC, how many rounds.

use std::time::Instant;

use engine::testing::TwoHosts;
use engine::vnics::Host;
use offload::testing::LargeSend;
use offload::vnet::VnetHeader;

const ROUNDS: usize = 800;

struct Sink;

impl Host for Sink {
    fn write(&mut self, _: usize, parts: &[&[u8]]) -> bool {
        std::hint::black_box(parts).len() > 1
    }
}

/// Print the nanoseconds per packet of bursts of so many frames, each of which becomes `cut` packets.
fn measure(name: &str, icrc: bool, burst: usize, (header, frame): &(VnetHeader, Vec<u8>), cut: usize) {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let is = |at: usize, value: &str| args.get(at).is_none_or(|only| only == value);
    if !is(0, name) || !is(1, &icrc.to_string()) {
        return;
    }
    let rounds = args.get(2).map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    let mut bed = TwoHosts::new(true);
    bed.vnics.icrc = icrc;
    bed.vnics.vports[1].take_datagrams_merged(true);
    let mut buffer = vec![0; frame.len().max(60)];
    let bursts = (2000 / cut / burst).max(1);
    let mut figures = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..bursts {
            for _ in 0..burst {
                buffer[..frame.len()].copy_from_slice(frame);
                bed.vnics.transmit(&mut bed.engine, bed.now, 0, header, (&mut buffer, frame.len()), None);
            }
            bed.settle(&mut Sink);
        }
        figures.push(start.elapsed().as_nanos() as f64 / (bursts * burst * cut) as f64);
    }
    figures.sort_by(f64::total_cmp);
    let (least, median) = (figures[0], figures[rounds / 2]);
    println!("{name}, ICRC {icrc}: {least:.1} ns at least, {median:.1} ns median");
}

fn main() {
    let large = LargeSend { ipv6: false, tcp: true, tags: 0, payload: 64_000, size: 1448 }.build();
    let (_, small) = LargeSend { ipv6: false, tcp: false, tags: 0, payload: 64, size: 1448 }.build();
    let header = VnetHeader { flags: 1, csum_start: 34, csum_offset: 6, ..VnetHeader::default() };
    let small = (header, small);
    for icrc in [true, false] {
        measure("64 KiB of TCP", icrc, 1, &large, 45);
        measure("4 x 64 KiB of TCP", icrc, 4, &large, 45);
        measure("1 datagram", icrc, 1, &small, 1);
        measure("16 datagrams", icrc, 16, &small, 1);
        measure("64 datagrams", icrc, 64, &small, 1);
    }
}
