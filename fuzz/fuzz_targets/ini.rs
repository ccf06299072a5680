#![no_main]

#[allow(dead_code)]
#[path = "../targets/services.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::ini(data));
