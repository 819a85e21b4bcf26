//! SplitMix64, as hfi_sim/base/random_stream.py defines it: where a stream begins, and how packets draw from it.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Chances are of 2^53.
pub const CHANCE_BITS: u32 = 53;

/// The random words of one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    state: u64,
}

impl Stream {
    /// Where it stands now.
    pub fn state(&self) -> u64 {
        self.state
    }

    pub fn new(state: u64) -> Self {
        Stream { state }
    }

    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Draw one word: whether it meets a chance of 2^53.
    pub fn hits(&mut self, chance: u64) -> bool {
        self.word() >> (64 - CHANCE_BITS) < chance
    }
}

#[cfg(test)]
mod tests {
    use super::Stream;

    const REFERENCE_STATE: u64 = 0xda5b_a4ad_0fcf_b692;
    const REFERENCE_WORDS: [u64; 4] =
        [0xe099_3650_4ebf_d1a0, 0xfb28_6972_21a2_f877, 0xa9bf_5253_a813_b7d7, 0x270d_0b95_b186_18c0];

    /// The words of tests/unit/hfi_sim/base/test_random_stream.py.
    #[test]
    fn words_are_those_of_the_reference() {
        let mut stream = Stream::new(REFERENCE_STATE);
        assert_eq!(REFERENCE_WORDS.map(|_| stream.word()), REFERENCE_WORDS);
    }
}
