//! Rewriting in place: addresses, port, lengths, checksums by difference (RFC 1624). A header to remove is overwritten
//! by the headers before it: the frame then begins later in the buffer, and its payload is not moved.

use wire::frame::be16;

use crate::fields::{lb_v1, lb_v23};
use crate::parse::{UDP_CHECKSUM, UDP_DST_PORT, UDP_LENGTH, UDP_SIZE};
use crate::tables::Rewrite;

/// The sum of 16-bit words; `data` has an even number of bytes.
#[inline]
fn words(data: &[u8]) -> u64 {
    data.chunks_exact(2).map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum()
}

/// The sum of the complements of 16-bit words.
#[inline]
fn complements(data: &[u8]) -> u64 {
    0xffff * (data.len() as u64 / 2) - words(data)
}

/// Fold with end-around carry: 0 only for 0.
#[inline]
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum after words with the sum `new` came for others; `old` is the sum of the others' complements.
#[inline]
fn update(value: u16, old: u64, new: u64) -> u16 {
    !fold(u64::from(!value) + old + new)
}

/// The same for UDP: 0 is "no checksum" and stays, a result of 0 is sent as 0xffff (RFC 768).
#[inline]
fn update_udp(value: u16, old: u64, new: u64) -> u16 {
    match (value, update(value, old, new)) {
        (0, _) => 0,
        (_, 0) => 0xffff,
        (_, sum) => sum,
    }
}

#[inline]
fn put16(frame: &mut [u8], at: usize, value: u16) {
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Rewrite a frame of version 1; return where it begins now. `udp` is where UDP begins.
#[inline]
pub fn v1(frame: &mut [u8], udp: usize, to: &Rewrite) -> usize {
    let (dst, length_at, ip) = if to.v6 { (38..54, 18, &to.ip[..]) } else { (30..34, 16, &to.ip[12..]) };
    let ip_len = be16(frame, length_at);
    let lb = udp + UDP_SIZE;
    let udp_len = be16(frame, udp + UDP_LENGTH);
    let old_dst = complements(&frame[dst.clone()]);
    let new_dst = words(ip);
    // the length counts twice: in the pseudo header and in the UDP header
    let old = old_dst
        + 2 * u64::from(!udp_len)
        + complements(&frame[udp + UDP_DST_PORT..udp + UDP_LENGTH])
        + complements(&frame[lb..lb + lb_v1::SIZE]);
    let new_len = udp_len - lb_v1::SIZE as u16;
    let new = new_dst + 2 * u64::from(new_len) + u64::from(to.port_base);
    let udp_sum = update_udp(be16(frame, udp + UDP_CHECKSUM), old, new);
    let new_ip_len = ip_len - lb_v1::SIZE as u16;
    if !to.v6 {
        let sum = update(be16(frame, 24), old_dst + u64::from(!ip_len), new_dst + u64::from(new_ip_len));
        put16(frame, 24, sum);
    }
    put16(frame, length_at, new_ip_len);
    frame[dst].copy_from_slice(ip);
    frame.copy_within(0..6, 6);
    frame[0..6].copy_from_slice(&to.mac);
    put16(frame, udp + UDP_DST_PORT, to.port_base);
    put16(frame, udp + UDP_LENGTH, new_len);
    put16(frame, udp + UDP_CHECKSUM, udp_sum);
    frame.copy_within(0..lb, lb_v1::SIZE);
    lb_v1::SIZE
}

/// Rewrite a frame of version 2 or 3; return where it begins now. It leaves from `mac` and `our_ip`.
#[inline]
pub fn v23(frame: &mut [u8], l4: usize, mac: u64, our_ip: u128, to: &Rewrite) -> usize {
    let removed = if to.keep { 0 } else { lb_v23::SIZE as u16 };
    let ours = our_ip.to_be_bytes();
    let (src, dst, length_at, ttl_at, first) = if to.v6 { (22, 38, 18, 21, 0) } else { (26, 30, 16, 22, 12) };
    let size = 16 - first;
    let (ours, theirs) = (&ours[first..], &to.ip[first..]);
    let old_ips = complements(&frame[src..dst + size]);
    let new_ips = words(ours) + words(theirs);
    let lb = l4 + UDP_SIZE;
    let udp_len = be16(frame, l4 + UDP_LENGTH);
    let new_len = udp_len - removed;
    let port = to.port_base.wrapping_add(be16(frame, lb + lb_v23::PORT_SELECT) & to.port_mask);
    let mut old = old_ips + complements(&frame[l4 + UDP_DST_PORT..l4 + UDP_LENGTH]);
    let mut new = new_ips + u64::from(port);
    if !to.keep {
        old += 2 * u64::from(!udp_len) + complements(&frame[lb..lb + lb_v23::SIZE]);
        new += 2 * u64::from(new_len);
    }
    let udp_sum = update_udp(be16(frame, l4 + UDP_CHECKSUM), old, new);
    let ip_len = be16(frame, length_at);
    let new_ip_len = ip_len - removed;
    let old_ttl = be16(frame, 22);
    frame[ttl_at] -= 1;
    if !to.v6 {
        let old = old_ips + u64::from(!ip_len) + u64::from(!old_ttl);
        let new = new_ips + u64::from(new_ip_len) + u64::from(be16(frame, 22));
        let sum = update(be16(frame, 24), old, new);
        put16(frame, 24, sum);
    }
    put16(frame, length_at, new_ip_len);
    frame[src..src + size].copy_from_slice(ours);
    frame[dst..dst + size].copy_from_slice(theirs);
    frame[0..6].copy_from_slice(&to.mac);
    frame[6..12].copy_from_slice(&mac.to_be_bytes()[2..]);
    put16(frame, l4 + UDP_DST_PORT, port);
    put16(frame, l4 + UDP_LENGTH, new_len);
    put16(frame, l4 + UDP_CHECKSUM, udp_sum);
    if !to.keep {
        frame.copy_within(0..lb, lb_v23::SIZE);
    }
    usize::from(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fold_is_zero_only_for_zero() {
        assert_eq!(fold(0), 0);
        for sum in [0xffff, 2 * 0xffff, 0xffff * 0x1_0000, 0xffff << 32] {
            assert_eq!(fold(sum), 0xffff);
        }
        assert_eq!(fold(0x1_0000), 1);
    }

    #[test]
    fn update_keeps_an_error_and_udp_keeps_an_absence() {
        let (old, new) = ([0x12, 0x34], [0xab, 0xcd]);
        let right = !fold(words(&old) + 0x5555);
        let after = !fold(words(&new) + 0x5555);
        assert_eq!(update(right, complements(&old), words(&new)), after);
        let wrong = !fold(u64::from(!right) + 7);
        assert_eq!(update(wrong, complements(&old), words(&new)), !fold(u64::from(!after) + 7));
        assert_eq!(update_udp(0, complements(&old), words(&new)), 0);
        // what the arithmetic makes 0 is sent as 0xffff
        assert_eq!(update_udp(0x1234, complements(&[0, 0]), u64::from(0x1234u16)), 0xffff);
    }
}
