//! Panics of host tasks. Owns the notice that one happened on this thread: a runtime would swallow it, and half a host would go on. Must never hide one.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static SEEN: RefCell<Option<String>> = const { RefCell::new(None) };
    static WATCHED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// From now on the first panic on this thread is kept. Other threads are left as they were.
pub(super) fn watch() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let kept = WATCHED.with(std::cell::Cell::get) && SEEN.with(|seen| seen.borrow().is_none());
            if kept {
                SEEN.with(|seen| *seen.borrow_mut() = Some(info.to_string().replace('\n', " ")));
            }
            before(info);
        }));
    });
    WATCHED.with(|watched| watched.set(true));
    SEEN.with(|seen| *seen.borrow_mut() = None);
}

/// The first panic on this thread, if there was one.
pub(super) fn seen() -> Option<String> {
    SEEN.with(|seen| seen.borrow().clone())
}
