//! Sampling of cache hits that record their body again and compare it with the cached plan.

use std::cell::Cell;
use std::sync::OnceLock;

/// Default period: one of this many cache hits is checked.
const USUAL: u32 = 16;

thread_local! {
    /// Check period of this thread; 0 disables checks. `None` means the period of the process.
    static PERIOD: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Counts a cache hit, and returns whether it is to be checked.
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
            eprintln!("gradloom: `GRADLOOM_CHECK_CALLS={said}` is not `off`, `every` or a number; one of {USUAL} calls is checked");
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
    /// Restores the previous period, even if `body` panics.
    struct PeriodGuard(Option<u32>);
    impl Drop for PeriodGuard {
        fn drop(&mut self) {
            PERIOD.set(self.0);
        }
    }
    let _before = PeriodGuard(PERIOD.replace(Some(period)));
    body()
}

/// Runs `body` and checks every call on this thread that finds a cached plan.
///
/// A check records the body of the function again and compares it with the plan. Without this
/// function, builds with debug assertions check one of 16 such calls. The environment variable
/// `GRADLOOM_CHECK_CALLS` sets another period, or `every` or `off`. Builds without debug assertions
/// check nothing.
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
/// If a call records something other than its cached plan. The message names the function.
pub fn check_every_call<R>(body: impl FnOnce() -> R) -> R {
    with_period(1, body)
}

/// Runs `body` without checks of cached calls on this thread.
///
/// Tests that count the work of a call use it: calls behave as in a build without debug assertions.
pub fn check_no_call<R>(body: impl FnOnce() -> R) -> R {
    with_period(0, body)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_environment_variable_sets_the_check_period() {
        let said = ["off", "every", "0", "5", "-1", "often"].map(parse);
        assert_eq!(said, [Some(0), Some(1), Some(0), Some(5), None, None]);
    }
}
