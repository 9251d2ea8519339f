//! Expected panics: their message and location.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Location of the last panic on this thread, while one is expected.
    static EXPECTED: RefCell<Option<(String, u32)>> = const { RefCell::new(None) };
}

/// Returns the message of the panic of `f`, and its file and line.
pub fn panic_of(f: impl FnOnce()) -> (String, String, u32) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let expected = EXPECTED.with_borrow_mut(|place| match place {
                Some(place) => {
                    let at = info.location().expect("a panic has a location");
                    *place = (at.file().to_owned(), at.line());
                    true
                }
                None => false,
            });
            if !expected {
                others(info);
            }
        }));
    });
    EXPECTED.set(Some(Default::default()));
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    let (file, line) = EXPECTED
        .take()
        .expect("the panic hook has set the location");
    let payload = result.expect_err("it panics");
    let text = payload
        .downcast::<String>()
        .expect("the panic has a `String` message");
    (*text, file, line)
}
