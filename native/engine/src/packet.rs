//! A packet in transit: bytes shared between copies, facts about them, and the few fields that an engine reads.
//!
//! Buffers are of a few sizes and are used again: an engine keeps those without references in lists, and
//! takes the one that it got back last, which is likely still in the processor's cache. A buffer that is dropped instead
//! is freed, which costs time and nothing else.
//!
//! Python may inject any bytes. A field of a packet that is shorter than a header reads as 0.

use std::ops::Deref;

use offload::segment::Origin;
use wire::shared::Shared;
use wire::{HEADER, TRAILER, check, lrh16b, near};

use crate::burst::MOST_PACKETS;
use crate::share::WorkerId;

/// Buffers have 2^7 to 2^17 bytes, so less than half is unused; a longer packet has a buffer of its own length.
const SMALLEST_BITS: u32 = 7;
const SIZES: usize = 11;
/// Bytes of the buffers that wait to be used again; further ones are freed.
pub const SPARE_BYTES: usize = 16 << 20;

/// The bytes of a packet, and facts about them.
///
/// It is one word, an address, because packets move between structures at each hop. Clones share the bytes, for example
/// multicast copies and observers. All changes use `Packets::change`, which first copies shared bytes.
#[derive(Clone, Debug)]
pub struct Packet(Shared<PacketMeta>);

/// The fields in front of the bytes, in one cache line with the header of the packet.
#[derive(Clone, Copy, Debug)]
struct PacketMeta {
    /// Of the packet; its buffer may be longer.
    len: u32,
    flags: u32,
    /// Packets of this length in the buffer.
    count: u32,
    /// The worker whose engine made the buffer.
    home: WorkerId,
}

/// It bears no ICRC.
const UNSEALED: u32 = 1;
/// `Origin::Summed`, or `Origin::Cut`.
const SUMMED: u32 = 2;
/// `Origin::Cut`.
const CUT: u32 = 4;
/// It was checked, ICRC included, and has not been changed since.
const SOUND: u32 = 8;

/// How many packets are made while one comes near from another processor.
const AHEAD: usize = 4;
/// Lines of a packet that another processor fetches when it reads the first, where its headers are.
const TOUCHED: usize = 4;

/// Bytes of a buffer of several packets, at most: a large send of a host fits, each packet on a cache line of its own.
const BURST_BYTES: usize = 1 << 17;
const _: () = assert!(BURST_BYTES / stride(1) <= MOST_PACKETS);

/// From the beginning of one packet of a buffer to that of the next.
#[inline]
const fn stride(len: usize) -> usize {
    len.next_multiple_of(32)
}

/// How many packets of `len` bytes a buffer may hold.
pub fn longest_burst(len: usize) -> usize {
    BURST_BYTES / stride(len)
}

/// A packet with one reference, while it is changed.
pub struct Own<'a> {
    pub bytes: &'a mut [u8],
    flags: &'a mut u32,
}

impl Own<'_> {
    #[inline]
    fn set(&mut self, flag: u32, on: bool) {
        *self.flags = *self.flags & !flag | if on { flag } else { 0 };
    }

    #[inline]
    pub fn set_sealed(&mut self, sealed: bool) {
        self.set(UNSEALED, !sealed);
    }

    #[inline]
    pub fn set_origin(&mut self, origin: Origin) {
        self.set(SUMMED, origin != Origin::Unknown);
        self.set(CUT, origin == Origin::Cut);
    }

    /// Mark it as checked, ICRC included, with the packets before it in the buffer.
    #[inline]
    pub fn set_sound(&mut self, sound: bool) {
        self.set(SOUND, sound);
    }
}

impl Packet {
    fn with_buffer(size: usize, home: WorkerId) -> Self {
        let known = PacketMeta { len: 0, flags: 0, count: 1, home };
        Packet(Shared::new(known, size))
    }

    /// Whether it bears an ICRC. Without one nothing has changed it since it was made, and no receiver checks it.
    #[inline]
    pub fn is_sealed(&self) -> bool {
        self.meta().flags & UNSEALED == 0
    }

    /// Whether each packet of the buffer has been checked and not changed since: receivers need not check it again.
    #[inline]
    pub fn is_sound(&self) -> bool {
        self.meta().flags & SOUND != 0
    }

    /// Check a packet with an ICRC here, while its bytes are in the cache, rather than at the receiver.
    #[inline]
    pub fn vouch(&mut self) {
        let PacketMeta { len, flags, .. } = self.meta();
        if flags & (UNSEALED | SOUND) == 0
            && self.count() == 1
            && !self.is_shared()
            && check(self, true).is_ok()
        {
            self.alone(len as usize, flags | SOUND, |_| ());
        }
    }

    /// What is known of the checksums of the frame inside: nothing any more once it was damaged.
    #[inline]
    pub fn origin(&self) -> Origin {
        match self.meta().flags & (SUMMED | CUT) {
            0 => Origin::Unknown,
            SUMMED => Origin::Summed,
            _ => Origin::Cut,
        }
    }

    #[inline]
    fn meta(&self) -> PacketMeta {
        self.0.known()
    }

    /// Bytes of its buffer.
    #[inline]
    fn size(&self) -> usize {
        self.0.size()
    }

    /// Prefetch for writing the lines that a receiver has read: another worker's processor may have them in its cache.
    #[inline]
    fn write_soon(&self) {
        let whole = self.0.address();
        (0..TOUCHED).for_each(|line| near::write_soon(whole.wrapping_add(line * near::LINE)));
    }

    /// Prefetch its header for reading from the cache of another processor.
    #[inline]
    pub fn read_soon(&self) {
        near::read_soon(self.0.address());
    }

    /// How many packets the buffer holds, with the same header and of the same length; `deref` returns the first.
    #[inline]
    pub fn count(&self) -> u32 {
        self.meta().count
    }

    /// Whether both are references to the same buffer.
    #[inline]
    pub fn is_same_buffer(&self, other: &Packet) -> bool {
        self.0.address() == other.0.address()
    }

    /// The bytes of one packet of the buffer, counted from 0.
    #[inline]
    pub fn nth(&self, index: u32) -> &[u8] {
        let len = self.meta().len as usize;
        &self.0.bytes()[self.offset(index)..][..len]
    }

    /// Where one packet of the buffer begins, after the first one.
    #[inline]
    pub fn offset(&self, index: u32) -> usize {
        index as usize * stride(self.meta().len as usize)
    }

    /// All bytes of its buffer.
    #[inline]
    pub fn buffer(&self) -> &[u8] {
        self.0.bytes()
    }

    #[inline]
    fn is_shared(&self) -> bool {
        !self.0.is_alone()
    }

    /// Change what nothing shares; `len` bytes of its buffer are the packet.
    #[inline]
    fn alone<R>(&mut self, len: usize, flags: u32, change: impl FnOnce(Own<'_>) -> R) -> R {
        let (known, bytes) = self.0.alone().expect("what is shared is copied before");
        *known = PacketMeta { len: len as u32, flags, count: 1, home: known.home };
        change(Own { bytes: &mut bytes[..len], flags: &mut known.flags })
    }
}

impl Deref for Packet {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0.bytes()[..self.meta().len as usize]
    }
}

/// A packet outside of all lists, with an ICRC, of which nothing else is known.
impl From<&[u8]> for Packet {
    fn from(bytes: &[u8]) -> Self {
        Packets::default().copy(bytes)
    }
}

impl PartialEq for Packet {
    fn eq(&self, other: &Self) -> bool {
        let told = |packet: &Packet| packet.meta().flags & !SOUND;
        (&**self, told(self)) == (&**other, told(other))
    }
}

impl Eq for Packet {}

/// A spare buffer on its way to another worker, which nothing shares.
#[derive(Debug)]
pub struct ReturnedBuffer {
    packet: Packet,
    /// Bytes of the buffer.
    size: usize,
}

/// The buffers that wait to be used again, by size; of each size, the last one in is the first one out.
#[derive(Debug, Default)]
pub struct Packets {
    spare: [Vec<Packet>; SIZES],
    spare_bytes: usize,
    home: WorkerId,
    /// By worker: buffers that go back to it. Their bytes count among those that are spare.
    returning: Vec<Vec<ReturnedBuffer>>,
}

/// Which list has buffers for so many bytes; beyond the last: none has.
#[inline]
fn list(len: usize) -> usize {
    let bits = len.saturating_sub(1).checked_ilog2().map_or(0, |last| last + 1);
    bits.saturating_sub(SMALLEST_BITS) as usize
}

impl Packets {
    /// Make those of one worker of several.
    pub fn of_worker(home: WorkerId, workers: u32) -> Self {
        let returning = (0..workers).map(|_| Vec::new()).collect();
        Packets { home, returning, ..Packets::default() }
    }

    /// Return a buffer for a packet of `len` bytes, which nothing shares.
    #[inline]
    fn buffer(&mut self, len: usize) -> Packet {
        let list = list(len);
        if let Some(spare) = self.spare.get_mut(list)
            && let Some(packet) = spare.pop()
        {
            if let Some(soon) = spare.len().checked_sub(AHEAD) {
                spare[soon].write_soon();
            }
            self.spare_bytes -= packet.size();
            return packet;
        }
        assert!(u32::try_from(len).is_ok(), "a packet is smaller than 4 GiB");
        let size = if list < SIZES { 1 << (list + SMALLEST_BITS as usize) } else { len };
        Packet::with_buffer(size, self.home)
    }

    /// Return a packet of `len` bytes, which `fill` fills: they are those of an earlier packet, or 0. It bears an ICRC if
    /// nothing else is said, and nothing more is known of it.
    #[inline]
    pub fn make(&mut self, len: usize, fill: impl FnOnce(Own<'_>)) -> Packet {
        let mut packet = self.buffer(len);
        packet.alone(len, 0, fill);
        packet
    }

    /// Return a buffer of `count` packets of `len` bytes, which `fill` fills one by one, all with the same header.
    #[inline]
    pub fn make_burst(&mut self, len: usize, count: usize, mut fill: impl FnMut(Own<'_>)) -> Packet {
        let mut packet = self.buffer(stride(len) * count);
        let (known, bytes) = packet.0.alone().expect("a spare buffer is not shared");
        *known = PacketMeta { len: len as u32, flags: 0, count: count as u32, home: known.home };
        let mut at = 0;
        for _ in 0..count {
            fill(Own { bytes: &mut bytes[at..at + len], flags: &mut known.flags });
            at += stride(len);
        }
        packet
    }

    /// Return a copy of one packet of a buffer, counted from 0.
    pub fn single(&mut self, several: &Packet, index: u32) -> Packet {
        let bytes = several.nth(index);
        let mut packet = self.buffer(bytes.len());
        packet.alone(bytes.len(), several.meta().flags, |own| own.bytes.copy_from_slice(bytes));
        packet
    }

    /// Return a packet with these bytes.
    #[inline]
    pub fn copy(&mut self, bytes: &[u8]) -> Packet {
        self.make(bytes.len(), |own| own.bytes.copy_from_slice(bytes))
    }

    /// Change a packet, copied before if anything shares it.
    #[inline]
    pub fn change<R>(&mut self, packet: &mut Packet, change: impl FnOnce(Own<'_>) -> R) -> R {
        let PacketMeta { len, flags, count, .. } = packet.meta();
        debug_assert_eq!(count, 1, "a buffer of several packets is not changed");
        if packet.is_shared() {
            *packet = self.copy(packet);
        }
        packet.alone(len as usize, flags & !SOUND, change)
    }

    /// Recycle a packet. Its buffer returns to the pool with the last reference.
    #[inline]
    pub fn recycle(&mut self, packet: Packet) {
        let size = packet.size();
        if !packet.is_shared()
            && self.spare_bytes + size <= SPARE_BYTES
            && let Some(spare) = self.spare.get_mut(list(size))
        {
            spare.push(packet);
            self.spare_bytes += size;
        }
    }

    /// Recycle a packet that was hardly read here: its buffer returns to the worker that made it, whose processor still
    /// has it in its cache.
    #[inline]
    pub fn send_home(&mut self, packet: Packet) {
        let (home, size) = (packet.meta().home, packet.size());
        if home == self.home || packet.is_shared() || self.spare_bytes + size > SPARE_BYTES {
            return self.recycle(packet);
        }
        match self.returning.get_mut(home as usize) {
            Some(returning) => {
                returning.push(ReturnedBuffer { packet, size });
                self.spare_bytes += size;
            }
            None => self.recycle(packet),
        }
    }

    /// Move the buffers that go back to a worker into `list`.
    pub fn returned_to(&mut self, worker: WorkerId, list: &mut Vec<ReturnedBuffer>) {
        let Some(returning) = self.returning.get_mut(worker as usize) else { return };
        self.spare_bytes -= returning.iter().map(|returned| returned.size).sum::<usize>();
        list.append(returning);
    }

    /// Take buffers that other workers have returned. Their bytes are not read, since they are in another processor's
    /// cache.
    pub fn take_home(&mut self, list: &mut Vec<ReturnedBuffer>) {
        // those that are used first; each of them asks for another
        list.iter().rev().take(AHEAD).for_each(|returned| returned.packet.write_soon());
        for ReturnedBuffer { packet, size } in list.drain(..) {
            if self.spare_bytes + size <= SPARE_BYTES
                && let Some(spare) = self.spare.get_mut(self::list(size))
            {
                spare.push(packet);
                self.spare_bytes += size;
            }
        }
    }

    /// Whether the pool is more than half full, so that other workers may get buffers.
    #[inline]
    pub fn has_surplus(&self) -> bool {
        self.spare_bytes > SPARE_BYTES / 2
    }

    /// Return a spare buffer for packets of this length, if there is one and the pool is more than half full.
    #[inline]
    pub fn surplus(&mut self, len: usize) -> Option<ReturnedBuffer> {
        (self.has_surplus() && !self.spare.get(list(len))?.is_empty()).then(|| {
            let packet = self.buffer(len);
            ReturnedBuffer { size: packet.size(), packet }
        })
    }

    /// Give a packet its ICRC, if it bears none.
    pub fn seal(&mut self, packet: &mut Packet) {
        if !packet.is_sealed() {
            self.change(packet, |mut own| {
                own.set_sealed(true);
                if own.bytes.len() >= HEADER + TRAILER {
                    ::wire::put_icrc(own.bytes);
                }
            });
        }
    }

    /// Return the packet with its FECN bit set; the ICRC does not cover it.
    pub fn with_fecn(&mut self, packet: Packet) -> Packet {
        self.with_bit(packet, 7, lrh16b::FECN.put(1))
    }

    /// Return the packet with its BECN bit set; the ICRC does not cover it.
    pub fn with_becn(&mut self, packet: Packet) -> Packet {
        self.with_bit(packet, 3, lrh16b::BECN.put(1))
    }

    /// Return the packet, of a whole header, on another service channel; the ICRC does not cover it.
    pub fn with_sc(&mut self, mut packet: Packet, sc: u32) -> Packet {
        self.change(&mut packet, |own| {
            own.bytes[6] = own.bytes[6] & 0x0f | (sc as u8) << 4;
            own.bytes[7] = own.bytes[7] & 0xfe | (sc >> 4) as u8;
        });
        packet
    }

    /// Set a bit of the word that ends with byte `last`, in whose highest byte it lies.
    fn with_bit(&mut self, mut packet: Packet, last: usize, bit: u32) -> Packet {
        if packet.len() >= HEADER {
            self.change(&mut packet, |own| own.bytes[last] |= (bit >> 24) as u8);
        }
        packet
    }

    #[cfg(test)]
    fn spare(&self) -> usize {
        self.spare.iter().map(Vec::len).sum()
    }
}

#[inline]
fn field(packet: &[u8], read: impl FnOnce(&[u8]) -> u32) -> u32 {
    if packet.len() < HEADER { 0 } else { read(packet) }
}

#[inline]
pub fn slid(packet: &[u8]) -> u32 {
    field(packet, wire::slid)
}

#[inline]
pub fn dlid(packet: &[u8]) -> u32 {
    field(packet, wire::dlid)
}

#[inline]
pub fn sc(packet: &[u8]) -> u32 {
    field(packet, |packet| lrh16b::SC.get(packet))
}

#[inline]
pub fn entropy(packet: &[u8]) -> u32 {
    field(packet, |packet| lrh16b::ENTROPY.get(packet))
}

#[inline]
pub fn fecn(packet: &[u8]) -> bool {
    field(packet, |packet| lrh16b::FECN.get(packet)) != 0
}

#[inline]
pub fn becn(packet: &[u8]) -> bool {
    field(packet, |packet| lrh16b::BECN.get(packet)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::star::{address, packet};

    #[test]
    fn marks_are_set_in_a_copy_where_bytes_are_shared() {
        let mut packets = Packets::default();
        let plain = packets.copy(&[0; 24]);
        let marked = packets.with_fecn(plain.clone());
        let marked = packets.with_becn(marked);
        assert!(fecn(&marked) && becn(&marked));
        assert_eq!((marked[7], marked[3]), (0x10, 0x80));
        assert_eq!(plain[..], [0u8; 24]);
    }

    #[test]
    fn service_channel_changes_and_nothing_else_does() {
        let mut packets = Packets::default();
        for was in [0x00, 0xff] {
            let plain = packets.copy(&[was; 24]);
            for channel in [0, 15, 16, 31] {
                let changed = packets.with_sc(plain.clone(), channel);
                assert_eq!(sc(&changed), channel);
                assert_eq!(packets.with_sc(changed, u32::from(was & 31)), plain);
            }
        }
    }

    #[test]
    fn short_packets_have_no_fields() {
        let mut packets = Packets::default();
        for len in 0..HEADER {
            let packet = packets.copy(&vec![0xff; len]);
            assert_eq!((sc(&packet), dlid(&packet), fecn(&packet)), (0, 0, false));
            assert_eq!(packets.with_fecn(packet.clone()), packet);
        }
    }

    #[test]
    fn buffer_is_used_again_by_packets_of_its_size_once_nobody_shares_it() {
        let mut packets = Packets::default();
        let packet = packets.copy(&[7; 1500]);
        let shared = packet.clone();
        let buffer = packet.as_ptr();
        packets.recycle(packet);
        assert_eq!(packets.spare(), 0, "it is still shared");
        packets.recycle(shared);
        assert_eq!(packets.spare(), 1);
        assert_ne!(packets.make(1024, |_| ()).as_ptr(), buffer);
        let again = packets.make(1025, |_| ());
        assert_eq!((again.as_ptr(), again.len()), (buffer, 1025));
    }

    /// A packet with a frame of 60 bytes, and its ICRC.
    fn sealed(packets: &mut Packets) -> Packet {
        packet(packets, address(0, 1), 60, 0)
    }

    #[test]
    fn only_a_whole_packet_that_nothing_has_changed_is_sound() {
        let mut packets = Packets::default();
        let mut whole = sealed(&mut packets);
        let mut shared = whole.clone();
        shared.vouch();
        assert!(!shared.is_sound(), "another holds it");
        drop(shared);
        whole.vouch();
        assert!(whole.is_sound() && whole == sealed(&mut packets));
        assert!(!packets.with_fecn(whole.clone()).is_sound());
        packets.change(&mut whole, |own| own.bytes[40] ^= 1);
        assert!(!whole.is_sound());
        whole.vouch();
        assert!(!whole.is_sound(), "it is damaged");
        let mut bare = packets.make(100, |mut own| own.set_sealed(false));
        bare.vouch();
        assert!(!bare.is_sound());
        packets.recycle(whole);
        assert!(!sealed(&mut packets).is_sound(), "nothing is known of what is in a buffer next");
    }

    #[test]
    fn packet_of_a_burst_that_was_checked_is_sound_until_it_is_changed() {
        let mut packets = Packets::default();
        let mut second = |sound: bool| {
            let burst = packets.make_burst(100, 3, |mut own| own.set_sound(sound));
            packets.single(&burst, 1)
        };
        assert!(!second(false).is_sound());
        let single = second(true);
        assert!(single.is_sound());
        assert!(!packets.with_fecn(single).is_sound());
    }

    #[test]
    fn unread_packet_goes_back_to_the_worker_that_made_its_buffer() {
        let [mut first, mut second] = [0, 1].map(|worker| Packets::of_worker(worker, 2));
        let packet = sealed(&mut first);
        let buffer = packet.as_ptr();
        second.send_home(packet.clone());
        second.send_home(packet);
        assert_eq!((second.spare(), second.spare_bytes), (0, 128));
        let mut list = Vec::new();
        second.returned_to(0, &mut list);
        assert_eq!((list.len(), second.spare_bytes), (1, 0));
        first.take_home(&mut list);
        assert_eq!((list.len(), first.spare()), (0, 1));
        assert_eq!(sealed(&mut first).as_ptr(), buffer);
    }

    #[test]
    fn every_length_fits_its_buffer_and_wastes_less_than_it_has() {
        let mut packets = Packets::default();
        let mut all = Vec::new();
        for len in [0, 1, 128, 129, 255, 256, 257, 4096, 10_240, 65_535, 65_536, 65_537, 1 << 20] {
            let packet = packets.copy(&vec![1; len]);
            assert_eq!(packet[..], vec![1; len]);
            assert!(packet.size() < 2 * len.max(65), "{len}");
            all.push(packet);
        }
        all.into_iter().for_each(|packet| packets.recycle(packet));
        assert_eq!(packets.spare(), 12, "what is longer than all sizes is not kept");
    }

    #[test]
    fn spare_buffers_are_bounded() {
        let mut packets = Packets::default();
        let all: Vec<Packet> = (0..1000).map(|_| packets.make(40_000, |_| ())).collect();
        all.into_iter().for_each(|packet| packets.recycle(packet));
        assert_eq!((packets.spare(), packets.spare_bytes), (SPARE_BYTES >> 16, SPARE_BYTES));
    }

    #[test]
    fn icrc_is_put_once_and_in_a_copy_where_bytes_are_shared() {
        let mut packets = Packets::default();
        let mut packet = packets.make(40, |mut own| own.set_sealed(false));
        let plain = packet.clone();
        packets.seal(&mut packet);
        assert_ne!(packet[..], plain[..]);
        assert_eq!(plain[..], [0; 40]);
        let sealed = packet.clone();
        packets.seal(&mut packet);
        assert_eq!(packet, sealed);
    }
}
