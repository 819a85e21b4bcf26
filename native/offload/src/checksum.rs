//! The Internet checksum (RFC 1071) in native byte order.
//!
//! Ones' complement sums do not care about byte order as long as one order is kept: words are read and
//! the result is stored in the machine's own, which saves every swap.

/// Return the unfolded sum of `data`, as if it began at an even offset.
#[inline]
pub fn sum(data: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if data.len() >= 64 && is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, just asked
            return unsafe { sum_avx2(data) };
        }
    }
    sum_words(data)
}

/// Copy `from` to the start of `to`, which is no shorter, and return its sum as `sum` does.
#[inline]
pub fn copy_and_sum(to: &mut [u8], from: &[u8]) -> u64 {
    let to = &mut to[..from.len()];
    #[cfg(target_arch = "x86_64")]
    {
        if from.len() >= 64 && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            // SAFETY: the CPU has the features, just asked
            return unsafe { copy_and_sum_avx512(to, from) };
        }
        if from.len() >= 64 && is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, just asked
            return unsafe { copy_and_sum_avx2(to, from) };
        }
    }
    to.copy_from_slice(from);
    sum(from)
}

/// Both slices have the same length.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f", enable = "avx512bw")]
fn copy_and_sum_avx512(to: &mut [u8], from: &[u8]) -> u64 {
    use std::arch::x86_64::*;

    assert_eq!(to.len(), from.len());
    let low = _mm512_set1_epi64(0xffff_ffff);
    let (mut even, mut odd) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    let mut add = |block: __m512i| {
        even = _mm512_add_epi64(even, _mm512_and_si512(block, low));
        odd = _mm512_add_epi64(odd, _mm512_srli_epi64::<32>(block));
    };
    let whole = from.len() & !63;
    for at in (0..whole).step_by(64) {
        // SAFETY: `at + 64` is no more than the length of either slice
        unsafe {
            let block = _mm512_loadu_si512(from.as_ptr().add(at).cast());
            _mm512_storeu_si512(to.as_mut_ptr().add(at).cast(), block);
            add(block);
        }
    }
    let rest = (1u64 << (from.len() - whole)) - 1;
    // SAFETY: masked-out bytes are not touched, the others lie within both slices; `whole` is at most their end
    unsafe {
        let block = _mm512_maskz_loadu_epi8(rest, from.as_ptr().add(whole).cast());
        _mm512_mask_storeu_epi8(to.as_mut_ptr().add(whole).cast(), rest, block);
        add(block);
    }
    // at most 64 KiB were summed up: no 64-bit sum comes near its end
    _mm512_reduce_add_epi64(_mm512_add_epi64(even, odd)) as u64
}

/// Both slices have the same length.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn copy_and_sum_avx2(to: &mut [u8], from: &[u8]) -> u64 {
    use std::arch::x86_64::*;

    assert_eq!(to.len(), from.len());
    let low = _mm256_set1_epi64x(0xffff_ffff);
    let mut sums = [_mm256_setzero_si256(); 4];
    let whole = from.len() & !63;
    for at in (0..whole).step_by(64) {
        // SAFETY: `at + 64` is no more than the length of either slice
        let blocks = unsafe {
            let (from, to) = (from.as_ptr().add(at), to.as_mut_ptr().add(at));
            let blocks = [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())];
            _mm256_storeu_si256(to.cast(), blocks[0]);
            _mm256_storeu_si256(to.add(32).cast(), blocks[1]);
            blocks
        };
        for (block, sums) in blocks.iter().zip(sums.chunks_exact_mut(2)) {
            sums[0] = _mm256_add_epi64(sums[0], _mm256_and_si256(*block, low));
            sums[1] = _mm256_add_epi64(sums[1], _mm256_srli_epi64::<32>(*block));
        }
    }
    let halves = _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3]));
    let pair = _mm_add_epi64(_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
    let total = _mm_cvtsi128_si64(pair) as u64 + _mm_extract_epi64::<1>(pair) as u64;
    to[whole..].copy_from_slice(&from[whole..]);
    total + sum_words(&from[whole..])
}

#[inline(always)]
fn sum_words(data: &[u8]) -> u64 {
    let mut sums = [0u64; 8];
    let mut blocks = data.chunks_exact(32);
    for block in &mut blocks {
        for (sum, word) in sums.iter_mut().zip(block.chunks_exact(4)) {
            *sum += u64::from(u32::from_ne_bytes(word.try_into().unwrap()));
        }
    }
    let mut total: u64 = sums.iter().sum();
    let mut words = blocks.remainder().chunks_exact(2);
    for word in &mut words {
        total += u64::from(u16::from_ne_bytes(word.try_into().unwrap()));
    }
    if let [last] = words.remainder() {
        total += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    total
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(data: &[u8]) -> u64 {
    sum_words(data)
}

/// Fold a sum to 16 bits.
#[inline]
pub fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

/// A 16-bit number as it stands in a header, for use in a sum.
#[inline]
pub fn be(value: u16) -> u64 {
    u64::from(value.to_be())
}

/// Read the checksum field at `at`, or any 16 bits, as a term of a sum.
#[inline]
pub fn get(data: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([data[at], data[at + 1]])
}

/// Store a folded value at `at`.
#[inline]
pub fn put(data: &mut [u8], at: usize, value: u16) {
    data[at..at + 2].copy_from_slice(&value.to_ne_bytes());
}

/// The sum of the pseudo header: addresses as they stand, protocol, length of the L4 part.
#[inline]
pub fn pseudo(addresses: &[u8], protocol: u8, len: usize) -> u64 {
    sum_words(addresses) + be(u16::from(protocol)) + be((len & 0xffff) as u16) + be((len >> 16) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(data: &[u8]) -> u16 {
        let mut total = 0u32;
        for pair in data.chunks(2) {
            total += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
            total = (total & 0xffff) + (total >> 16);
        }
        (total as u16).to_be()
    }

    #[test]
    fn sum_any_length_equals_the_plain_definition() {
        let data: Vec<u8> = (0..2000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for len in 0..data.len() {
            assert_eq!(fold(sum(&data[..len])), plain(&data[..len]), "{len} bytes");
            let mut copy = vec![0xee; len + 1];
            assert_eq!(fold(copy_and_sum(&mut copy, &data[..len])), plain(&data[..len]), "{len} bytes");
            assert_eq!((&copy[..len], copy[len]), (&data[..len], 0xee));
        }
    }
}
