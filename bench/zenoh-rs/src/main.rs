//! Trains of packets over Zenoh without Python, in the form of opavnic/cluster/protocol/messages.py.
//!
//! `opavnic-bench-zenoh receive ADDRESS` counts packets until the other end leaves.
//! `opavnic-bench-zenoh send ADDRESS SIZE SECONDS SHM BATCH...` prints a line of JSON for each BATCH: packets per second
//! that arrived, and the median round trip of one train of that many packets in microseconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

use zenoh::qos::{CongestionControl, Priority};
use zenoh::{Config, Session, Wait};

const HEAD: usize = 36 + 8;

fn open(listen: &str, connect: &str, shm: bool) -> Session {
    let text = format!(
        r#"{{mode: "peer", listen: {{endpoints: [{listen}]}}, connect: {{endpoints: [{connect}]}},
            scouting: {{multicast: {{enabled: false}}}},
            transport: {{shared_memory: {{enabled: {shm}}}, link: {{rx: {{buffer_size: 1048576}},
                tx: {{queue: {{size: {{data: 16}}}}}}}}}}}}"#
    );
    zenoh::open(Config::from_json5(&text).unwrap()).wait().unwrap()
}

fn train(packet: &[u8], batch: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(HEAD + 2 + batch * (2 + packet.len()));
    data.resize(HEAD, 0);
    data.extend_from_slice(&(batch as u16).to_be_bytes());
    for _ in 0..batch {
        data.extend_from_slice(&(packet.len() as u16).to_be_bytes());
    }
    for _ in 0..batch {
        data.extend_from_slice(packet);
    }
    data
}

/// Packets of a train, each in memory of its own as an engine takes them.
fn packets(data: &[u8]) -> Vec<Box<[u8]>> {
    let count = u16::from_be_bytes([data[HEAD], data[HEAD + 1]]) as usize;
    let (mut at, mut found) = (HEAD + 2 + 2 * count, Vec::with_capacity(count));
    for index in 0..count {
        let place = HEAD + 2 + 2 * index;
        let length = u16::from_be_bytes([data[place], data[place + 1]]) as usize;
        found.push(data[at..at + length].into());
        at += length;
    }
    found
}

fn receive(address: &str) {
    let session = open(&format!("\"{address}\""), "", true);
    let counted = Arc::new(AtomicU64::new(0));
    let echo = session.clone();
    let pong = session
        .declare_publisher("b/pong")
        .congestion_control(CongestionControl::Block)
        .express(true)
        .wait()
        .unwrap();
    let seen = counted.clone();
    let _data = session
        .declare_subscriber("b/data")
        .callback(move |sample| {
            seen.fetch_add(packets(&sample.payload().to_bytes()).len() as u64, Ordering::Relaxed);
        })
        .wait()
        .unwrap();
    let _ping = session
        .declare_subscriber("b/ping")
        .callback(move |sample| {
            let count = packets(&sample.payload().to_bytes()).len();
            assert!(count > 0);
            pong.put(sample.payload().to_bytes().to_vec()).wait().unwrap();
        })
        .wait()
        .unwrap();
    let (done, wait) = mpsc::channel();
    let _end = session
        .declare_subscriber("b/end")
        .callback(move |sample| {
            if sample.payload().is_empty() {
                done.send(()).unwrap();
                return;
            }
            let total = counted.swap(0, Ordering::Relaxed).to_be_bytes();
            echo.put("b/count", total.to_vec()).wait().unwrap();
        })
        .wait()
        .unwrap();
    println!("ready");
    wait.recv().unwrap();
}

fn send(arguments: &[String]) {
    let (address, size, seconds) = (&arguments[0], &arguments[1], &arguments[2]);
    let packet = vec![0u8; size.parse().unwrap()];
    let seconds: f64 = seconds.parse().unwrap();
    let session = open("", &format!("\"{address}\""), arguments[3] == "shm");
    let (tell, told) = mpsc::channel::<Vec<u8>>();
    let counts = tell.clone();
    let _count = session
        .declare_subscriber("b/count")
        .callback(move |sample| counts.send(sample.payload().to_bytes().to_vec()).unwrap())
        .wait()
        .unwrap();
    let _pong = session
        .declare_subscriber("b/pong")
        .callback(move |sample| tell.send(sample.payload().to_bytes().to_vec()).unwrap())
        .wait()
        .unwrap();
    let data = publisher(&session, "b/data", false);
    let ping = publisher(&session, "b/ping", true);
    let end = publisher(&session, "b/end", false);
    std::thread::sleep(Duration::from_millis(500));
    for batch in &arguments[4..] {
        let batch: usize = batch.parse().unwrap();
        let begin = Instant::now();
        while begin.elapsed().as_secs_f64() < seconds {
            data.put(train(&packet, batch)).wait().unwrap();
        }
        end.put("?").wait().unwrap();
        let arrived = u64::from_be_bytes(told.recv().unwrap().try_into().unwrap());
        let took = begin.elapsed().as_secs_f64();
        let mut trips = Vec::new();
        let begin = Instant::now();
        while begin.elapsed().as_secs_f64() < seconds / 2.0 {
            let sent = Instant::now();
            ping.put(train(&packet, batch)).wait().unwrap();
            told.recv().unwrap();
            trips.push(sent.elapsed());
        }
        trips.sort();
        println!(
            "{{\"batch\": {batch}, \"packets_per_second\": {:.0}, \"rtt_us_p50\": {:.1}}}",
            arrived as f64 / took,
            trips[trips.len() / 2].as_secs_f64() * 1e6
        );
    }
    end.put(Vec::<u8>::new()).wait().unwrap();
    std::thread::sleep(Duration::from_millis(200));
}

fn publisher<'a>(session: &'a Session, key: &'static str, express: bool) -> zenoh::pubsub::Publisher<'a> {
    session
        .declare_publisher(key)
        .congestion_control(CongestionControl::Block)
        .priority(Priority::Data)
        .express(express)
        .wait()
        .unwrap()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("receive") if arguments.len() == 2 => receive(&arguments[1]),
        Some("send") if arguments.len() > 5 => send(&arguments[1..]),
        _ => panic!("receive ADDRESS | send ADDRESS SIZE SECONDS shm|tcp BATCH..."),
    }
}
