//! The pipeline: parse, filter, epoch, calendar, member, rewrite. One call per frame, in place, nothing allocated.

use std::ops::Range;

use wire::frame::{IPV4, IPV6, be16};

use crate::counters::{Counters, LBS};
use crate::drops::Drop;
use crate::fields::{LB_PORT, lb_v1, lb_v23};
use crate::parse::{self, Found, Headers, UDP_DST_PORT, UDP_SIZE};
use crate::rewrite;
use crate::tables::{Member, Snapshot, calendar_key, member_key};

/// The result for a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is sent; its place in the buffer.
    Forward(Range<usize>),
    Dropped(Drop),
    /// Not for the fast path: not counted, the buffer is unchanged.
    Punt,
}

#[inline]
fn mac_of(bytes: &[u8]) -> u64 {
    u64::from(be16(bytes, 0)) << 32 | u64::from(be16(bytes, 2)) << 16 | u64::from(be16(bytes, 4))
}

#[inline]
fn be64(data: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(data[at..at + 8].try_into().expect("eight bytes"))
}

#[inline]
fn be32(data: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(data[at..at + 4].try_into().expect("four bytes"))
}

#[inline]
fn be128(data: &[u8], at: usize) -> u128 {
    u128::from_be_bytes(data[at..at + 16].try_into().expect("sixteen bytes"))
}

/// Whether an instance's source filter lets the sender of a frame in.
#[inline]
fn is_admitted(tables: &Snapshot, frame: &[u8], lb_id: u8, v6: bool) -> bool {
    if v6 {
        tables.sources6.contains_key(&(lb_id, be128(frame, 22)))
    } else {
        tables.sources4.contains_key(&(lb_id, be32(frame, 26)))
    }
}

/// Run one Ethernet frame (without FCS) through the pipeline; any bytes are fine.
#[inline]
pub fn process(tables: &Snapshot, counters: &mut Counters, frame: &mut [u8]) -> Outcome {
    process_parsed(tables, counters, frame, &parse::headers(frame))
}

/// Run a frame through the pipeline whose headers have been parsed.
#[inline]
pub fn process_parsed(
    tables: &Snapshot,
    counters: &mut Counters,
    frame: &mut [u8],
    headers: &Headers,
) -> Outcome {
    let only_v1 = tables.mac_dst.is_empty();
    if !tables.v1_filter.is_empty() && (only_v1 || headers.has_v1_header(frame)) {
        return process_v1(tables, counters, frame, headers);
    }
    process_v23(tables, counters, frame, headers)
}

fn process_v1(tables: &Snapshot, counters: &mut Counters, frame: &mut [u8], headers: &Headers) -> Outcome {
    counters.enter(frame.len());
    match balance_v1(tables, counters, frame, headers) {
        Ok((member, start)) => {
            counters.sent(member, frame.len() - start);
            Outcome::Forward(start..frame.len())
        }
        Err((reason, lb)) => {
            counters.drop(reason, lb);
            Outcome::Dropped(reason)
        }
    }
}

/// A drop, and the instance it is also counted on.
type Refusal = (Drop, Option<usize>);

fn balance_v1(
    tables: &Snapshot,
    counters: &mut Counters,
    frame: &mut [u8],
    headers: &Headers,
) -> Result<(u16, usize), Refusal> {
    let early = |reason| (reason, None);
    let (udp, ip_dst) = parse::v1(frame, headers).map_err(early)?;
    let ethertype = headers.ethertype;
    match tables.v1_filter.get(&(mac_of(frame), ethertype, ip_dst)) {
        None => return Err(early(Drop::DstFilterMiss)),
        Some(false) => return Err(early(Drop::DstFilterDrop)),
        Some(true) => {}
    }
    let udp = udp.ok_or(early(Drop::NotUdplbProtocol))?;
    if be16(frame, udp + UDP_DST_PORT) != LB_PORT {
        return Err(early(Drop::NotUdplbPort));
    }
    let tick = be64(frame, udp + UDP_SIZE + lb_v1::TICK);
    let lb = &mut counters.lbs[0];
    lb.rx_packets += 1;
    lb.rx_bytes += frame.len() as u64;
    let late = |reason| (reason, Some(0));
    if tables.guard_v1 && !is_admitted(tables, frame, 0, ethertype == IPV6) {
        return Err(late(Drop::SrcBlocked));
    }
    lb.tick(1, tick);
    let epoch = tables.v1_epochs.lookup(0, tick).ok_or(late(Drop::EpochMiss))?;
    let epoch = epoch.ok_or(late(Drop::EpochDrop))?;
    let slot = tables.v1_calendar.get(&calendar_key(0, epoch, tick as u16 & 0x1ff));
    let member = slot.ok_or(late(Drop::CalendarMiss))?.ok_or(late(Drop::CalendarDrop))?;
    let to = tables.v1_members.get(&member_key(0, ethertype, member)).ok_or(late(Drop::MemberMiss))?;
    let to = to.as_ref().ok_or(late(Drop::MemberDrop))?;
    if ethertype != if to.v6 { IPV6 } else { IPV4 } {
        return Err(late(Drop::MemberFamily));
    }
    Ok((member, rewrite::v1(frame, udp, to)))
}

fn process_v23(tables: &Snapshot, counters: &mut Counters, frame: &mut [u8], headers: &Headers) -> Outcome {
    let tag = headers.tag;
    let found = match parse::v23(frame.get(tag..).unwrap_or_default(), headers) {
        Ok(Found::Other) => return Outcome::Punt,
        Ok(found) => found,
        Err(reason) => {
            counters.enter(frame.len());
            counters.drop(reason, None);
            return Outcome::Dropped(reason);
        }
    };
    let mut vlan = 0;
    if tag != 0 {
        vlan = be16(frame, 14) & 0xfff;
        frame.copy_within(0..14, tag); // the tag goes, the ethertype 0x8100 stays
    } else if frame[0..5] == [0x01, 0x80, 0xc2, 0, 0] && frame[5] < 16 {
        return Outcome::Punt; // a group that no bridge forwards: the host's
    }
    counters.enter(frame.len());
    match balance_v23(tables, counters, &mut frame[tag..], found, vlan) {
        Ok((member, start)) => {
            let out = tag + start..frame.len();
            counters.sent(member, out.len());
            Outcome::Forward(out)
        }
        Err((reason, lb)) => {
            counters.drop(reason, lb);
            Outcome::Dropped(reason)
        }
    }
}

fn balance_v23(
    tables: &Snapshot,
    counters: &mut Counters,
    frame: &mut [u8],
    found: Found,
    vlan: u16,
) -> Result<(u16, usize), Refusal> {
    let early = |reason| (reason, None);
    let Found::Udp { v6, l4, lb: has_header } = found else { unreachable!("the caller punts the rest") };
    let ethertype = be16(frame, 12);
    let (iface, mut mac) = tables.iface.lookup(vlan, ()).copied().unwrap_or((0, 0));
    let allowed = tables.mac_dst.lookup(iface, mac_of(frame)).ok_or(early(Drop::MacDstMiss))?;
    mac = allowed.unwrap_or(mac);
    let ip_dst = if v6 { be128(frame, 38) } else { u128::from(be32(frame, 30)) };
    let ours = tables.ip_dst.lookup(iface, (ethertype, ip_dst)).ok_or(early(Drop::IpDstMiss))?;
    let &(our_ip, lb_id) = ours;
    let index = usize::from(lb_id);
    debug_assert!(index < LBS);
    let lb = &mut counters.lbs[index];
    lb.rx_packets += 1;
    lb.rx_bytes += frame.len() as u64;
    let late = |reason| (reason, Some(index));
    if !is_admitted(tables, frame, lb_id, v6) {
        return Err(late(Drop::SrcBlocked));
    }
    if !has_header {
        return Err(late(Drop::NotUdplbPort));
    }
    let at = l4 + UDP_SIZE;
    let tick = be64(frame, at + lb_v23::TICK);
    let version = frame[at + lb_v23::VERSION];
    lb.tick(version, tick);
    if frame[if v6 { 21 } else { 22 }] <= 1 {
        return Err(late(Drop::Ttl));
    }
    let select = if version == 2 { tick as u16 } else { be16(frame, at + lb_v23::SLOT_SELECT) };
    let epoch = tables.epochs.lookup(lb_id, tick).ok_or(late(Drop::EpochMiss))?;
    let slot = (select ^ epoch.slot_xor) & epoch.slot_mask;
    let slot = tables.calendar.get(&calendar_key(lb_id, epoch.number, slot));
    let &member = slot.ok_or(late(Drop::CalendarMiss))?;
    let to = match tables.members.get(&member_key(lb_id, ethertype, member)) {
        None => return Err(late(Drop::MemberMiss)),
        Some(Member::Drop) => return Err(late(Drop::MemberDrop)),
        Some(Member::SoftEvicted) => {
            counters.member(member).soft_evicted += 1;
            return Err(late(Drop::MemberSoftEvicted));
        }
        Some(Member::Deregistered) => {
            counters.member(member).deregistered += 1;
            return Err(late(Drop::MemberDeregistered));
        }
        Some(Member::Rewrite(to)) => to,
    };
    if to.v6 != v6 {
        return Err(late(Drop::MemberFamily));
    }
    Ok((member, rewrite::v23(frame, l4, mac, our_ip, to)))
}
