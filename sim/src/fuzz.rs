//! Byte-driven entries: what a fuzzer calls with its inputs, and tests with the inputs that were kept. Owns how bytes become a trial or a recording; must never fail on
//! bytes that mean nothing.

use std::cell::RefCell;

use crate::config::Config;
use crate::exec::ExecError;
use crate::panics::{quiet_panics, simulated};
use crate::recording::Recording;
use crate::trial::{Finding, Origin, Runner};

thread_local! {
    static RUNNER: RefCell<Option<Runner>> = const { RefCell::new(None) };
}

/// Runs the trial that `bytes` decide, workload and schedule and faults, with the sound host under the default configuration. Empty when all is well.
///
/// # Errors
/// [`ExecError::InsideTokio`].
pub fn trial(bytes: &[u8]) -> Result<Vec<Finding>, ExecError> {
    quiet_panics();
    RUNNER.with_borrow_mut(|kept| {
        let runner = match kept {
            Some(runner) => runner,
            None => kept.insert(Runner::new()?),
        };
        Ok(simulated(|| runner.run(&Config::default(), Origin::Bytes(bytes.to_vec()), None)).findings)
    })
}

/// Reads `bytes` as a recording. `false` if they are none; what is one must come back from its own text.
///
/// # Panics
/// If a recording does not survive being written and read again: that is our own mistake.
#[must_use]
pub fn recording(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(recording) = Recording::parse("input", text) else { return false };
    let again = Recording::parse("again", &recording.to_text()).expect("what was written can be read");
    assert_eq!(recording, again);
    true
}
