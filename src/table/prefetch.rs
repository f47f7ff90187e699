//! The one hint that a table gives to the processor.
#![allow(unsafe_code, reason = "there is no safe form of this instruction; it is the only one")]

/// Asks for the cache lines of `value`, and returns at once.
#[inline]
pub(super) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..size_of::<T>()).step_by(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let at = std::ptr::from_ref(value).cast::<i8>().wrapping_add(line);
        // SAFETY: a prefetch reads nothing that the program could see and faults on no address; this one lies within
        // `value` besides. SSE, which has the instruction, is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
    // Elsewhere the processor finds out by itself, a little later.
    #[cfg(not(target_arch = "x86_64"))]
    let _unused = value;
}

#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;
