#![no_main]

#[path = "../../tests/support/pair.rs"]
mod pair;
#[allow(dead_code)]
#[path = "../../tests/fuzz/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::secrets(bytes));
