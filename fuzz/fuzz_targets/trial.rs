//! Bytes decide a whole trial of the sound host; whatever it finds is a crash of this target.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let findings = hostproof_sim::fuzz::trial(bytes).expect("a fuzzer runs in no tokio runtime");
    assert!(findings.is_empty(), "{findings:#?}");
});
