//! The ICRC: CRC-32 (0x04C11DB7, reflected, ones at both ends) over the header with SC, FECN, BECN and age as
//! ones, everything behind it up to the ICRC, and the pad count. Definition: hfi_sim/wire/icrc.py.
//!
//! With AVX-512 the packet is folded by carry-less multiplication in blocks of 64 bytes, the mask being applied in
//! registers; otherwise, and where the variable `OPAVNIC_ICRC` is `portable`, which benchmarks set, crc32fast does the
//! work on a masked copy of the header.

use crate::TRAILER;
use crate::lrh16b::MAY_CHANGE as VARIABLE;

/// Compute the ICRC of a whole packet of 21 bytes or more.
#[inline]
pub fn icrc(packet: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if packet.len() >= x86::MIN_PACKET && *x86::AVAILABLE {
        // SAFETY: the CPU has the features, and the packet the length
        return unsafe { x86::icrc(packet) };
    }
    portable(packet)
}

fn portable(packet: &[u8]) -> u32 {
    let end = packet.len() - TRAILER;
    // the first 64 bytes go through a copy, so that one call covers them with the masked header
    let mut head = [0u8; 64];
    let split = end.min(64);
    head[..split].copy_from_slice(&packet[..split]);
    for (byte, mask) in head.iter_mut().zip(VARIABLE) {
        *byte |= mask;
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head[..split]);
    crc.update(&packet[split..end]);
    crc.update(&[packet[packet.len() - 1] & 7]);
    crc.finalize()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::sync::LazyLock;

    use super::{TRAILER, VARIABLE};

    /// Shorter packets have no whole block behind the first.
    pub const MIN_PACKET: usize = 64 + TRAILER;

    pub static AVAILABLE: LazyLock<bool> = LazyLock::new(|| {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("pclmulqdq")
            && std::env::var_os("OPAVNIC_ICRC").is_none_or(|wanted| wanted != "portable")
    });

    /// x^n modulo the polynomial, bit-reflected and moved up by one as carry-less multiplication of reflected
    /// numbers needs it.
    const fn power(n: u32) -> i64 {
        let mut value = 0x8000_0000u32;
        let mut i = 0;
        while i < n {
            value = value >> 1 ^ (0xedb8_8320 & (value & 1).wrapping_neg());
            i += 1;
        }
        (value as i64) << 1
    }

    /// Both factors that move 128 bits forward by `bits`: for the low and for the high half.
    const fn fold(bits: u32) -> [i64; 2] {
        [power(bits + 32), power(bits - 32)]
    }

    const FOLD_2048: [i64; 2] = fold(2048);
    const FOLD_512: [i64; 2] = fold(512);
    const FOLD_384: [i64; 2] = fold(384);
    const FOLD_256: [i64; 2] = fold(256);
    const FOLD_128: [i64; 2] = fold(128);
    const POLYNOMIAL: i64 = 0x1_db71_0641;
    /// floor(x^64 / polynomial), reflected.
    const QUOTIENT: i64 = 0x1_f701_1641;

    /// 64 zeros, the header's mask (or the ones that begin a CRC-32), zeros: loaded at an offset of r, the table
    /// puts them under a message of which the first block has r bytes.
    const fn shifted<const N: usize>(bytes: [u8; N]) -> [u8; 208] {
        let mut table = [0; 208];
        let mut i = 0;
        while i < N {
            table[64 + i] = bytes[i];
            i += 1;
        }
        table
    }

    static MASKS: [u8; 208] = shifted(VARIABLE);
    static ONES: [u8; 208] = shifted([0xff; 4]);

    /// `(accumulator moved forward) ^ block`.
    #[inline]
    #[target_feature(enable = "avx512f", enable = "vpclmulqdq")]
    fn step(accumulator: __m512i, factors: __m512i, block: __m512i) -> __m512i {
        let low = _mm512_clmulepi64_epi128::<0x00>(accumulator, factors);
        let high = _mm512_clmulepi64_epi128::<0x11>(accumulator, factors);
        _mm512_ternarylogic_epi64::<0x96>(low, high, block)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn spread(pair: [i64; 2]) -> __m512i {
        let [low, high] = pair;
        _mm512_set_epi64(high, low, high, low, high, low, high, low)
    }

    /// The message, its pad count included, is taken as blocks of 64 bytes that end with it; the first is short
    /// and filled up with zeros in front, which a CRC that begins at zero does not see.
    ///
    /// # Safety
    /// `AVAILABLE`, and `packet` has `MIN_PACKET` bytes or more.
    #[target_feature(
        enable = "avx512f",
        enable = "avx512bw",
        enable = "vpclmulqdq",
        enable = "pclmulqdq",
        enable = "sse4.1"
    )]
    pub unsafe fn icrc(packet: &[u8]) -> u32 {
        let len = packet.len() - TRAILER + 1;
        let pad_count = packet[packet.len() - 1] & 7;
        let short = (len - 1) % 64 + 1;
        let blocks = (len - short) / 64;
        let start = packet.as_ptr();
        // SAFETY: masked-out bytes are not touched; all others lie within the packet, whose last five bytes
        // follow the covered ones; table offsets are at most 128 of 208
        unsafe {
            let load = |at: usize| _mm512_loadu_si512(start.add(short + at * 64).cast());
            let table = |table: &[u8; 208], at: usize| _mm512_loadu_si512(table.as_ptr().add(at).cast());
            let first = _mm512_maskz_loadu_epi8(
                u64::MAX << (64 - short),
                start.wrapping_add(short).wrapping_sub(64).cast(),
            );
            let mut a = _mm512_xor_si512(_mm512_or_si512(first, table(&MASKS, short)), table(&ONES, short));
            // what a short first block does not hold of header and ones
            let begun = |block: __m512i| {
                let block = _mm512_or_si512(block, table(&MASKS, 64 + short));
                _mm512_xor_si512(block, table(&ONES, 64 + short))
            };
            let ended = |block: __m512i| _mm512_mask_set1_epi8(block, 1 << 63, pad_count as i8);
            let near = spread(FOLD_512);
            let mut at = 0;
            if blocks >= 8 {
                let far = spread(FOLD_2048);
                let (mut b, mut c, mut d) = (begun(load(0)), load(1), load(2));
                at = 3;
                while at + 4 < blocks {
                    a = step(a, far, load(at));
                    b = step(b, far, load(at + 1));
                    c = step(c, far, load(at + 2));
                    d = step(d, far, load(at + 3));
                    at += 4;
                }
                a = step(step(step(a, near, b), near, c), near, d);
            }
            while at < blocks {
                let mut block = load(at);
                if at == 0 {
                    block = begun(block);
                }
                at += 1;
                if at == blocks {
                    block = ended(block);
                }
                a = step(a, near, block);
            }
            reduce(a)
        }
    }

    /// From 512 bits to the finished CRC.
    #[inline]
    #[target_feature(enable = "avx512f", enable = "vpclmulqdq", enable = "pclmulqdq", enable = "sse4.1")]
    fn reduce(a: __m512i) -> u32 {
        let factors = _mm512_set_epi64(
            0,
            0,
            FOLD_128[1],
            FOLD_128[0],
            FOLD_256[1],
            FOLD_256[0],
            FOLD_384[1],
            FOLD_384[0],
        );
        // the last 128 bits stay where they are
        let last = _mm512_maskz_mov_epi64(0b1100_0000, a);
        let folded = step(a, factors, last);
        let half = _mm256_xor_si256(_mm512_castsi512_si256(folded), _mm512_extracti64x4_epi64::<1>(folded));
        let x = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
        let low32 = _mm_set_epi32(0, 0, 0, -1);
        // 128 to 64 bits, then Barrett's reduction to 32
        let x = _mm_xor_si128(
            _mm_clmulepi64_si128::<0x00>(x, _mm_set_epi64x(0, power(96))),
            _mm_srli_si128::<8>(x),
        );
        let x = _mm_xor_si128(
            _mm_clmulepi64_si128::<0x00>(_mm_and_si128(x, low32), _mm_set_epi64x(0, power(64))),
            _mm_srli_si128::<4>(x),
        );
        let barrett = _mm_set_epi64x(QUOTIENT, POLYNOMIAL);
        let t = _mm_clmulepi64_si128::<0x10>(_mm_and_si128(x, low32), barrett);
        let t = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(t, low32), barrett);
        !(_mm_extract_epi32::<1>(_mm_xor_si128(t, x)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_pad_count_equals_the_definition() {
        let bytes: Vec<u8> = (0..3000u32).map(|i| (i * 31 + i / 251) as u8).collect();
        for len in 21..2600 {
            let mut packet = bytes[len % 97..len % 97 + len].to_vec();
            for tail in [0x40u8, 0x43, 0x47, 0xff] {
                *packet.last_mut().unwrap() = tail;
                let mut covered = packet[..len - TRAILER].to_vec();
                for (byte, mask) in covered.iter_mut().zip(VARIABLE) {
                    *byte |= mask;
                }
                covered.push(tail & 7);
                assert_eq!(icrc(&packet), crc32fast::hash(&covered), "{len} bytes, tail {tail:#x}");
                assert_eq!(portable(&packet), crc32fast::hash(&covered), "{len} bytes, tail {tail:#x}");
            }
        }
    }
}
