//! Bytes are read as a recording: no input may make the reader panic, and what it accepts comes back from its own text.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = hostproof_sim::fuzz::recording(bytes);
});
