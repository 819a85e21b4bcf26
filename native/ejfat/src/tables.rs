//! The match-action tables as a snapshot: immutable, built from the rows of ejfat/tables/match_action.py, swapped whole.
//!
//! Exact tables are one hash map; a prefix table is one per prefix length in use, longest first; a masked one is one
//! per mask in use, where among several hits the lowest rank wins.

use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

use engine::hash::FastMap;

/// One entry of a table: key values, the bits of them that count, action, arguments. Rows come in order of rank.
#[derive(Clone, Debug)]
pub struct Row {
    pub values: Vec<u128>,
    pub masks: Vec<u128>,
    pub action: String,
    pub args: Vec<u128>,
}

/// What a row's action does where it is not to drop.
pub type Or<T> = Option<T>;

/// VALUE/LENGTH of a tick, with what else is in the key.
#[derive(Clone, Debug)]
pub struct Lpm<T>(Vec<(u64, Prefixes<T>)>);

/// The entries of one prefix length.
type Prefixes<T> = FastMap<(u8, u64), T>;

impl<T> Default for Lpm<T> {
    fn default() -> Self {
        Lpm(Vec::new())
    }
}

impl<T> Lpm<T> {
    fn insert(&mut self, lb: u8, value: u64, mask: u64, action: T) {
        let at = self.0.iter().position(|(known, _)| *known == mask).unwrap_or_else(|| {
            let at = self.0.partition_point(|(known, _)| known.count_ones() >= mask.count_ones());
            self.0.insert(at, (mask, FastMap::default()));
            at
        });
        self.0[at].1.insert((lb, value & mask), action);
    }

    #[inline]
    pub fn lookup(&self, lb: u8, tick: u64) -> Option<&T> {
        self.0.iter().find_map(|(mask, group)| group.get(&(lb, tick & mask)))
    }
}

/// VALUE&&&MASK of one small field, with what else is in the key.
#[derive(Clone, Debug)]
pub struct Masked<K, V>(Vec<(u16, Ranked<K, V>)>);

/// The entries of one mask, with their ranks.
type Ranked<K, V> = FastMap<(u16, K), (usize, V)>;

impl<K, V> Default for Masked<K, V> {
    fn default() -> Self {
        Masked(Vec::new())
    }
}

impl<K: Copy + Eq + std::hash::Hash, V> Masked<K, V> {
    fn insert(&mut self, mask: u16, field: u16, rest: K, rank: usize, value: V) {
        let at = self.0.iter().position(|(known, _)| *known == mask).unwrap_or_else(|| {
            self.0.push((mask, FastMap::default()));
            self.0.len() - 1
        });
        if let Entry::Vacant(slot) = self.0[at].1.entry((field & mask, rest)) {
            slot.insert((rank, value));
        }
    }

    #[inline]
    pub fn lookup(&self, field: u16, rest: K) -> Option<&V> {
        let hits = self.0.iter().filter_map(|(mask, group)| group.get(&(field & mask, rest)));
        hits.min_by_key(|(rank, _)| *rank).map(|(_, value)| value)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Where a member's packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    pub mac: [u8; 6],
    /// An IPv4 address lies in the last four bytes.
    pub ip: [u8; 16],
    pub v6: bool,
    pub port_base: u16,
    pub port_mask: u16,
    pub keep: bool,
}

/// What the v2/v3 member table does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    Rewrite(Rewrite),
    Drop,
    SoftEvicted,
    Deregistered,
}

/// An epoch, and how its slots are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    pub number: u32,
    pub slot_mask: u16,
    pub slot_xor: u16,
}

#[inline]
pub fn calendar_key(lb: u8, epoch: u32, slot: u16) -> u64 {
    u64::from(lb) << 48 | u64::from(epoch) << 16 | u64::from(slot)
}

#[inline]
pub fn member_key(lb: u8, ethertype: u16, member: u16) -> u64 {
    u64::from(lb) << 32 | u64::from(ethertype) << 16 | u64::from(member)
}

/// All tables of both pipelines.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Destination MAC, ethertype, destination IP -> whether it passes.
    pub v1_filter: Arc<FastMap<(u64, u16, u128), bool>>,
    pub v1_epochs: Arc<Lpm<Or<u32>>>,
    pub v1_calendar: Arc<FastMap<u64, Or<u16>>>,
    pub v1_members: Arc<FastMap<u64, Or<Rewrite>>>,
    /// VLAN -> interface, its MAC.
    pub iface: Arc<Masked<(), (u16, u64)>>,
    /// Interface, destination MAC -> the MAC to send from.
    pub mac_dst: Arc<Masked<u64, Option<u64>>>,
    /// Interface, ethertype, destination IP -> our address, instance.
    pub ip_dst: Arc<Masked<(u16, u128), (u128, u8)>>,
    pub sources4: Arc<FastMap<(u8, u32), ()>>,
    pub sources6: Arc<FastMap<(u8, u128), ()>>,
    pub epochs: Arc<Lpm<Epoch>>,
    pub calendar: Arc<FastMap<u64, u16>>,
    pub members: Arc<FastMap<u64, Member>>,
    /// Where sync messages come to; empty: there is no control plane that takes them.
    pub sync_ports: Range<u32>,
    /// Whether instance 0's source filter holds for version 1 as well.
    pub guard_v1: bool,
}

fn shape(table: &str, row: &Row, keys: usize) -> Result<(), String> {
    if row.values.len() == keys && row.masks.len() == keys {
        return Ok(());
    }
    Err(format!("{table}: {} key fields, expected {keys}", row.values.len()))
}

fn arg(table: &str, row: &Row, index: usize) -> Result<u128, String> {
    row.args
        .get(index)
        .copied()
        .ok_or_else(|| format!("{table}: {} takes more than {} arguments", row.action, row.args.len()))
}

fn mac_of(value: u128) -> [u8; 6] {
    (value as u64).to_be_bytes()[2..].try_into().expect("six of eight bytes")
}

fn rewrite(table: &str, row: &Row, full: bool) -> Result<Rewrite, String> {
    let select = if full { arg(table, row, 3)? } else { 0 };
    Ok(Rewrite {
        mac: mac_of(arg(table, row, 0)?),
        ip: arg(table, row, 1)?.to_be_bytes(),
        v6: row.action == "do_ipv6_member_rewrite",
        port_base: arg(table, row, 2)? as u16,
        port_mask: low_bits(select),
        keep: full && arg(table, row, 4)? != 0,
    })
}

/// A mask of so many low bits, of 16.
fn low_bits(bits: u128) -> u16 {
    if bits >= 16 { u16::MAX } else { (1 << bits) - 1 }
}

/// A number of an exact key, by its place.
fn key(row: &Row, place: usize) -> u128 {
    row.values[place]
}

/// Put rows into an exact table: in the place of all it has, or in addition. A row without an action takes away what
/// is under its key.
fn fill<K: Eq + Hash + Clone, V: Clone>(
    table: &str,
    map: &mut Arc<FastMap<K, V>>,
    rows: &[Row],
    anew: bool,
    keys: usize,
    of: impl Fn(&Row) -> (K, Result<V, String>),
) -> Result<(), String> {
    if anew {
        *map = Arc::default();
    }
    let map = Arc::make_mut(map);
    for row in rows {
        shape(table, row, keys)?;
        let (key, value) = of(row);
        if row.action.is_empty() {
            map.remove(&key);
        } else {
            map.insert(key, value?);
        }
    }
    Ok(())
}

fn unless_drop<T>(row: &Row, value: impl FnOnce() -> Result<T, String>) -> Result<Or<T>, String> {
    if row.action == "drop" { Ok(None) } else { value().map(Some) }
}

impl Snapshot {
    /// Put `rows` in the place of one table's, or, of an exact table and not `anew`, change those entries alone.
    /// `table` is named as Python does, `v1:` or `v2/v3:` before it.
    pub fn set(&mut self, table: &str, rows: &[Row], anew: bool) -> Result<(), String> {
        match table {
            "v1:dst_filter_table" => fill(table, &mut self.v1_filter, rows, anew, 3, |row| {
                let to = (key(row, 0) as u64, key(row, 1) as u16, key(row, 2));
                (to, Ok(row.action != "drop"))
            }),
            "v1:load_balance_calendar_table" => fill(table, &mut self.v1_calendar, rows, anew, 2, |row| {
                let slot = calendar_key(0, key(row, 0) as u32, key(row, 1) as u16);
                (slot, unless_drop(row, || Ok(arg(table, row, 0)? as u16)))
            }),
            "v1:member_info_lookup_table" => fill(table, &mut self.v1_members, rows, anew, 2, |row| {
                let member = member_key(0, key(row, 0) as u16, key(row, 1) as u16);
                (member, unless_drop(row, || rewrite(table, row, false)))
            }),
            "v2/v3:ipv4_src_filter_table" => fill(table, &mut self.sources4, rows, anew, 2, |row| {
                ((key(row, 0) as u8, key(row, 1) as u32), Ok(()))
            }),
            "v2/v3:ipv6_src_filter_table" => fill(table, &mut self.sources6, rows, anew, 2, |row| {
                ((key(row, 0) as u8, key(row, 1)), Ok(()))
            }),
            "v2/v3:load_balance_calendar_table" => fill(table, &mut self.calendar, rows, anew, 3, |row| {
                let slot = calendar_key(key(row, 0) as u8, key(row, 1) as u32, key(row, 2) as u16);
                (slot, arg(table, row, 0).map(|member| member as u16))
            }),
            "v2/v3:member_info_lookup_table" => fill(table, &mut self.members, rows, anew, 3, |row| {
                let member = member_key(key(row, 0) as u8, key(row, 1) as u16, key(row, 2) as u16);
                let to = match row.action.as_str() {
                    "drop" => Ok(Member::Drop),
                    "drop_soft_evicted" => Ok(Member::SoftEvicted),
                    "drop_deregistered" => Ok(Member::Deregistered),
                    _ => rewrite(table, row, true).map(Member::Rewrite),
                };
                (member, to)
            }),
            _ if !anew => Err(format!("{table} is no exact table: give all of its rows")),
            _ => self.set_ranked(table, rows),
        }
    }

    /// The tables in which several entries can match.
    fn set_ranked(&mut self, table: &str, rows: &[Row]) -> Result<(), String> {
        match table {
            "v1:epoch_assign_table" => {
                let mut lpm = Lpm::default();
                for row in rows {
                    shape(table, row, 1)?;
                    let epoch = unless_drop(row, || Ok(arg(table, row, 0)? as u32))?;
                    lpm.insert(0, row.values[0] as u64, row.masks[0] as u64, epoch);
                }
                self.v1_epochs = Arc::new(lpm);
            }
            "v2/v3:l2_iface_table" => {
                let mut masked = Masked::default();
                for (rank, row) in rows.iter().enumerate() {
                    shape(table, row, 1)?;
                    let value = (arg(table, row, 0)? as u16, arg(table, row, 1)? as u64);
                    masked.insert(row.masks[0] as u16, row.values[0] as u16, (), rank, value);
                }
                self.iface = Arc::new(masked);
            }
            "v2/v3:mac_dst_filter_table" => {
                let mut masked = Masked::default();
                for (rank, row) in rows.iter().enumerate() {
                    shape(table, row, 2)?;
                    let mac = row.args.first().map(|&mac| mac as u64);
                    masked.insert(row.masks[0] as u16, row.values[0] as u16, row.values[1] as u64, rank, mac);
                }
                self.mac_dst = Arc::new(masked);
            }
            "v2/v3:ip_dst_filter_table" => {
                let mut masked = Masked::default();
                for (rank, row) in rows.iter().enumerate() {
                    shape(table, row, 3)?;
                    let value = (arg(table, row, 0)?, arg(table, row, 1)? as u8 & 7);
                    let rest = (row.values[1] as u16, row.values[2]);
                    masked.insert(row.masks[0] as u16, row.values[0] as u16, rest, rank, value);
                }
                self.ip_dst = Arc::new(masked);
            }
            "v2/v3:epoch_assign_table" => {
                let mut lpm = Lpm::default();
                for row in rows {
                    shape(table, row, 2)?;
                    let (bits, xor) =
                        if row.args.len() > 1 { (row.args[1], arg(table, row, 2)? as u16) } else { (9, 0) };
                    let epoch = Epoch {
                        number: arg(table, row, 0)? as u32,
                        slot_mask: low_bits(bits),
                        slot_xor: xor,
                    };
                    lpm.insert(row.values[0] as u8, row.values[1] as u64, row.masks[1] as u64, epoch);
                }
                self.epochs = Arc::new(lpm);
            }
            _ => return Err(format!("no table {table:?}")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lpm_longest_prefix_wins_whatever_the_order() {
        for order in [[0u32, 60, 64], [64, 0, 60], [60, 64, 0]] {
            let mut lpm = Lpm::default();
            for len in order {
                let mask = if len == 0 { 0 } else { u64::MAX << (64 - len) };
                lpm.insert(3, 0x1f, mask, len);
            }
            assert_eq!(lpm.lookup(3, 0x1f), Some(&64));
            assert_eq!(lpm.lookup(3, 0x1e), Some(&60));
            assert_eq!(lpm.lookup(3, 0x2e), Some(&0));
            assert_eq!(lpm.lookup(2, 0x1f), None);
        }
    }

    #[test]
    fn masked_lowest_rank_wins_over_all_masks() {
        let mut masked = Masked::default();
        masked.insert(0xf, 3, (), 1, "exact");
        masked.insert(0, 0, (), 2, "any");
        masked.insert(1, 1, (), 0, "odd");
        assert_eq!(masked.lookup(3, ()), Some(&"odd"));
        assert_eq!(masked.lookup(2, ()), Some(&"any"));
        assert!(!masked.is_empty());
    }

    #[test]
    fn row_of_another_shape_is_refused() {
        let row = Row { values: vec![1], masks: vec![1], action: "NoAction".into(), args: vec![] };
        let mut snapshot = Snapshot::default();
        assert!(snapshot.set("v1:dst_filter_table", std::slice::from_ref(&row), true).is_err());
        assert!(snapshot.set("v2/v3:l2_iface_table", &[row], true).is_err());
        assert!(snapshot.set("v1:none", &[], true).is_err());
        assert!(snapshot.set("v2/v3:l2_iface_table", &[], false).is_err());
    }

    #[test]
    fn change_of_an_exact_table_leaves_its_other_entries_and_snapshots_before_it() {
        let row = |slot: u128, action: &str, member: u128| Row {
            values: vec![0, 1, slot],
            masks: vec![u128::MAX; 3],
            action: action.into(),
            args: vec![member],
        };
        let table = "v2/v3:load_balance_calendar_table";
        let mut snapshot = Snapshot::default();
        snapshot.set(table, &[row(1, "do_assign_member", 7), row(2, "do_assign_member", 8)], true).unwrap();
        let before = snapshot.clone();
        snapshot.set(table, &[row(1, "", 0), row(3, "do_assign_member", 9)], false).unwrap();
        let at = |of: &Snapshot, slot| of.calendar.get(&calendar_key(0, 1, slot)).copied();
        assert_eq!([1, 2, 3].map(|slot| at(&snapshot, slot)), [None, Some(8), Some(9)]);
        assert_eq!([1, 2, 3].map(|slot| at(&before, slot)), [Some(7), Some(8), None]);
    }
}
