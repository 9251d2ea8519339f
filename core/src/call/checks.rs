//! How often a call that finds its plan records its body again, to compare it with the plan.

use std::cell::Cell;
use std::sync::OnceLock;

/// How often, unless the environment says otherwise: one call of so many.
const USUAL: u32 = 16;

thread_local! {
    /// One call of so many is checked, or none for 0. `None` is as for the process.
    static PERIOD: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Whether a call is checked that has found a plan, after as many calls that were not as the counter says.
#[inline]
pub(super) fn is_due(counter: &Cell<u32>) -> bool {
    if !cfg!(debug_assertions) {
        return false;
    }
    let period = PERIOD.get().unwrap_or_else(of_process);
    let n = counter.get() + 1;
    let due = period != 0 && n >= period;
    counter.set(if due { 0 } else { n });
    due
}

fn of_process() -> u32 {
    static PERIOD: OnceLock<u32> = OnceLock::new();
    *PERIOD.get_or_init(|| match std::env::var("GRADLOOM_CHECK_CALLS") {
        Err(_) => USUAL,
        Ok(said) => parse(&said).unwrap_or_else(|| {
            eprintln!("gradloom: `GRADLOOM_CHECK_CALLS={said}` is not `off`, `every` or a number: one call of {USUAL} is checked");
            USUAL
        }),
    })
}

fn parse(said: &str) -> Option<u32> {
    match said {
        "off" => Some(0),
        "every" => Some(1),
        number => number.parse().ok(),
    }
}

fn with_period<R>(period: u32, body: impl FnOnce() -> R) -> R {
    /// Goes back to what was before when `body` panics, too.
    struct Before(Option<u32>);
    impl Drop for Before {
        fn drop(&mut self) {
            PERIOD.set(self.0);
        }
    }
    let _before = Before(PERIOD.replace(Some(period)));
    body()
}

/// Runs `body` and checks each call on this thread that finds its plan: its body is recorded again and compared with the plan. A
/// difference is a panic that names the function.
///
/// Without this, builds with debug assertions check one such call of 16. The environment variable `GRADLOOM_CHECK_CALLS` says another
/// number, `every` or `off`. Builds without debug assertions check none.
///
/// ```
/// use gradloom::prelude::*;
/// use gradloom::testing::check_every_call;
///
/// #[traced]
/// fn double(x: &Tensor) -> Tensor {
///     x * 2.0
/// }
///
/// let x = Tensor::from([1.0f32, 2.0]);
/// let y = check_every_call(|| [double(&x), double(&x)]);
/// assert_eq!(y[1].to_vec::<f32>(), [2.0, 4.0]);
/// ```
///
/// # Panics
///
/// A call records something else than the call did that its plan was made for.
pub fn check_every_call<R>(body: impl FnOnce() -> R) -> R {
    with_period(1, body)
}

/// Runs `body` without such checks on this thread, as a build without debug assertions does: for tests that count what a call does.
pub fn check_no_call<R>(body: impl FnOnce() -> R) -> R {
    with_period(0, body)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_environment_says_how_often_calls_are_checked() {
        let said = ["off", "every", "0", "5", "-1", "often"].map(parse);
        assert_eq!(said, [Some(0), Some(1), Some(0), Some(5), None, None]);
    }
}
