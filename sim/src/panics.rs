//! Panics inside simulated hosts: they are findings and print nothing. Owns the process-wide hook; must never swallow a panic of the product itself.

thread_local! {
    static SIMULATED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs `f` as part of a simulation: a panic inside is a finding, and prints nothing.
pub(crate) fn simulated<T>(f: impl FnOnce() -> T) -> T {
    SIMULATED.set(true);
    let result = f();
    SIMULATED.set(false);
    result
}

/// Lets the panics of simulated hosts be silent, once a process; all others go to the hook that was there.
pub(crate) fn quiet_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !SIMULATED.get() {
                before(info);
            } else if let Some(place) = info.location() {
                crate::exec::note_panic(format!("{}:{}", place.file(), place.line()));
            }
        }));
    });
}
