//! Packets per second through several workers: `cargo run --release --example workers -- 1 2`.

use std::time::Duration;

use workers::measure::{Case, measure};

fn main() {
    let workers: Vec<u32> = std::env::args().skip(1).filter_map(|count| count.parse().ok()).collect();
    for case in [Case::AllToAll, Case::Bottleneck] {
        for &count in &workers {
            match measure(case, count, Duration::from_millis(60)) {
                Ok(figure) => {
                    let rate = figure.delivered as f64 / figure.elapsed.as_secs_f64();
                    println!("{case:?}, {count} workers: {rate:.0} packets/s, {} handed over", figure.handed);
                }
                Err(failure) => eprintln!("{failure}"),
            }
        }
    }
}
