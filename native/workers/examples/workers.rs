//! Packets per second through several workers: `cargo run --release --example workers -- 2 all-to-all`.

use std::time::Duration;

use workers::measure::{Case, measure};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, case] = &arguments[..] else { panic!("how many workers, and which case?") };
    let count = count.parse().expect("a number of workers");
    match measure(Case::named(case).expect("a case"), count, Duration::from_millis(200)) {
        Ok(figure) => {
            let rate = figure.delivered as f64 / figure.elapsed.as_secs_f64();
            println!("{rate:.0} packets/s, {} handed over, {}", figure.handed, figure.delivered);
        }
        Err(failure) => eprintln!("{failure}"),
    }
}
