//! Which numbers of a sender were seen.

/// The numbers of one key that were seen: the highest, and which of the `64 * WORDS` up to it. Lower ones count as seen.
///
/// The sliding window of RFC 6479, where a word is cleared when the window moves into it.
#[derive(Clone, Debug)]
pub(super) struct Window<const WORDS: usize> {
    /// One more than the highest that was seen.
    end: u64,
    /// Number n is bit n modulo 64 of word n / 64 modulo `WORDS`.
    bits: [u64; WORDS],
}

/// What a window says of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    No,
    Yes,
    /// Too long ago to tell.
    TooOld,
}

impl<const WORDS: usize> Default for Window<WORDS> {
    fn default() -> Self {
        Self { end: 0, bits: [0; WORDS] }
    }
}

impl<const WORDS: usize> Window<WORDS> {
    pub(super) fn look(&self, number: u64) -> Seen {
        if number >= self.end {
            return Seen::No;
        }
        if self.first_word() > number / 64 {
            return Seen::TooOld;
        }
        if self.bits[Self::word(number)] & Self::bit(number) == 0 { Seen::No } else { Seen::Yes }
    }

    /// Notes that `number` was seen. Only for numbers that authenticated.
    pub(super) fn note(&mut self, number: u64) {
        if number >= self.end {
            let newest = self.end.div_ceil(64);
            let fresh = (number / 64 + 1).saturating_sub(newest).min(WORDS as u64);
            for word in 0..fresh {
                self.bits[Self::word((number / 64 - word) * 64)] = 0;
            }
            self.end = number.saturating_add(1);
        } else if self.first_word() > number / 64 {
            return;
        }
        self.bits[Self::word(number)] |= Self::bit(number);
    }

    /// The oldest word that is still told of.
    fn first_word(&self) -> u64 {
        self.end.div_ceil(64).saturating_sub(WORDS as u64)
    }

    fn word(number: u64) -> usize {
        (number / 64 % WORDS as u64) as usize
    }

    fn bit(number: u64) -> u64 {
        1 << (number % 64)
    }
}
