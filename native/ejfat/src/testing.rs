//! Small tables for tests and fuzz targets: every IPv4 and IPv6 frame below has a way through.

use crate::tables::{Row, Snapshot};

/// The load balancer's MAC, a sender's and a worker's IPv4 addresses.
pub const MAC: u64 = 0x0200_0000_0001;
pub const LB: u32 = 0x0a00_0001;
pub const SENDER: u32 = 0x0a00_0002;
pub const WORKER: u32 = 0x0a00_0009;

fn row(values: &[u128], masks: &[u128], action: &str, args: &[u128]) -> Row {
    Row { values: values.to_vec(), masks: masks.to_vec(), action: action.into(), args: args.to_vec() }
}

fn exact(values: &[u128], action: &str, args: &[u128]) -> Row {
    row(values, &vec![u128::MAX; values.len()], action, args)
}

/// Return tables of both pipelines, whose only member takes every slot; that of v2/v3 keeps its header.
pub fn tables() -> Snapshot {
    let (mac, lb, sender, worker) = (u128::from(MAC), u128::from(LB), u128::from(SENDER), u128::from(WORKER));
    let v6 = 0xfe80 << 112;
    let slots = |front: &[u128]| -> Vec<Row> {
        let key = |slot| [front, &[slot]].concat();
        (0..512).map(|slot| exact(&key(slot), "do_assign_member", &[9])).collect()
    };
    let mut tables = Snapshot::default();
    let mut set = |name: &str, rows: &[Row]| tables.set(name, rows, true).expect("rows have the right shape");
    set(
        "v1:dst_filter_table",
        &[exact(&[mac, 0x0800, lb], "NoAction", &[]), exact(&[mac, 0x86dd, v6 | 1], "NoAction", &[])],
    );
    set("v1:epoch_assign_table", &[row(&[0], &[0], "do_assign_epoch", &[3])]);
    set("v1:load_balance_calendar_table", &slots(&[3]));
    set(
        "v1:member_info_lookup_table",
        &[
            exact(&[0x0800, 9], "do_ipv4_member_rewrite", &[9, worker, 5000]),
            exact(&[0x86dd, 9], "do_ipv6_member_rewrite", &[9, v6 | 9, 5000]),
        ],
    );
    set("v2/v3:mac_dst_filter_table", &[row(&[0, mac], &[0, u128::MAX], "set_mac_sa", &[mac])]);
    set(
        "v2/v3:ip_dst_filter_table",
        &[
            row(&[0, 0x0800, lb], &[0, u128::MAX, u128::MAX], "set_ip_sa", &[lb, 2]),
            row(&[0, 0x8100, lb], &[0, u128::MAX, u128::MAX], "set_ip_sa", &[lb, 2]),
            row(&[0, 0x86dd, v6 | 1], &[0, u128::MAX, u128::MAX], "set_ip_sa", &[v6 | 1, 2]),
        ],
    );
    set("v2/v3:ipv4_src_filter_table", &[exact(&[2, sender], "allow_ip_src", &[])]);
    set("v2/v3:ipv6_src_filter_table", &[exact(&[2, v6 | 2], "allow_ip_src", &[])]);
    set("v2/v3:epoch_assign_table", &[row(&[2, 0], &[u128::MAX, 0], "do_assign_epoch", &[1])]);
    set("v2/v3:load_balance_calendar_table", &slots(&[2, 1]));
    set(
        "v2/v3:member_info_lookup_table",
        &[
            exact(&[2, 0x0800, 9], "do_ipv4_member_rewrite", &[9, worker, 5000, 4, 0]),
            exact(&[2, 0x8100, 9], "do_ipv4_member_rewrite", &[9, worker, 5000, 4, 0]),
            exact(&[2, 0x86dd, 9], "do_ipv6_member_rewrite", &[9, v6 | 9, 5000, 4, 1]),
        ],
    );
    tables
}

/// Return an IPv4 frame of a sender with a load balancer header of `version`; no UDP checksum.
pub fn frame(version: u8, tick: u64) -> Vec<u8> {
    let mut udp = vec![0x30, 0x39, 0x4c, 0x42, 0, 0, 0, 0, b'L', b'B', version, 1];
    if version != 1 {
        udp.extend([0, 7, 0, 3]);
    }
    udp.extend(tick.to_be_bytes());
    udp.extend(b"payload!");
    let len = udp.len() as u16;
    udp[4..6].copy_from_slice(&len.to_be_bytes());
    let mut frame = MAC.to_be_bytes()[2..].to_vec();
    frame.extend([2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0]);
    frame.extend((len + 20).to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 17, 0, 0]);
    frame.extend(SENDER.to_be_bytes());
    frame.extend(LB.to_be_bytes());
    frame.extend(udp);
    frame
}
