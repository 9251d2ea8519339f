//! Checks of what rules of the user return.

use crate::error::CustomFault;
use crate::{Aval, DType, Result, Tensor};

/// Checks gradients that code of the user returns: their number, shapes, dtypes, and on request that they are finite.
///
/// [`custom_call`](super::custom_call) checks each rule with it.
///
/// ```
/// use gradloom::custom::GradientValidator;
/// use gradloom::{DType, Tensor};
///
/// let x = Tensor::zeros([2, 3], DType::F32);
/// let check = GradientValidator::new("scale");
/// assert!(check.check(&[&x], &[&x.ones_like()]).is_ok());
/// let error = check.check(&[&x], &[&x.sum(0)]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`scale`: `backward` returned [3] as the shape for `input[0]`, expected [2, 3]"
/// );
/// // Reading the elements is opt-in.
/// let nan = &x / 0.0 * 0.0;
/// assert!(check.check(&[&x], &[&nan]).is_ok());
/// assert!(check.finite().check(&[&x], &[&nan]).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct GradientValidator {
    function: String,
    rule: &'static str,
    finite: bool,
}

impl GradientValidator {
    /// Returns the checks of the gradients that `backward` of a function returns.
    pub fn new(function: impl Into<String>) -> GradientValidator {
        GradientValidator {
            function: function.into(),
            rule: "backward",
            finite: false,
        }
    }

    /// Checks the elements as well, which computes them.
    pub fn finite(mut self) -> GradientValidator {
        self.finite = true;
        self
    }

    pub(super) fn of_rule(mut self, rule: &'static str) -> GradientValidator {
        self.rule = rule;
        self
    }

    /// Checks one gradient for each input.
    ///
    /// The gradient of an input that is not a float is not read, so it may be any tensor.
    ///
    /// # Errors
    ///
    /// The first gradient that does not fit, with the function and the number of the input.
    pub fn check(&self, inputs: &[&Tensor], gradients: &[&Tensor]) -> Result<()> {
        let paths = (0..inputs.len()).map(|i| format!("input[{i}]"));
        let avals: Vec<&Aval> = inputs.iter().map(|x| x.aval()).collect();
        self.check_avals(&avals, &paths.collect::<Vec<_>>(), gradients)
    }

    pub(super) fn check_avals(
        &self,
        expected: &[&Aval],
        paths: &[String],
        found: &[&Tensor],
    ) -> Result<()> {
        self.check_count(found.len(), expected.len())?;
        for ((expected, path), found) in expected.iter().zip(paths).zip(found) {
            self.check_one(expected, path, found)?;
        }
        Ok(())
    }

    pub(super) fn check_count(&self, found: usize, expected: usize) -> Result<()> {
        let rule = self.rule;
        match found == expected {
            true => Ok(()),
            false => Err(self.error(CustomFault::Count {
                rule,
                found,
                expected,
            })),
        }
    }

    /// Checks one tensor, unless a float is not expected.
    pub(super) fn check_one(&self, expected: &Aval, path: &str, found: &Tensor) -> Result<()> {
        match expected.dtype().is_float() {
            true => self.check_whole(expected, path, found),
            false => Ok(()),
        }
    }

    /// Checks the shape, the dtype and, if asked for, the elements of a tensor.
    pub(super) fn check_whole(&self, expected: &Aval, path: &str, found: &Tensor) -> Result<()> {
        let (rule, path) = (self.rule, path.to_owned());
        if found.shape() != expected.shape() {
            return Err(self.error(CustomFault::Shape {
                rule,
                path,
                found: found.shape().to_vec(),
                expected: expected.shape().to_vec(),
            }));
        }
        if found.dtype() != expected.dtype() {
            return Err(self.error(CustomFault::DType {
                rule,
                path,
                found: found.dtype(),
                expected: expected.dtype(),
            }));
        }
        if self.finite && found.dtype().is_float() {
            let numbers = found.cast(DType::F64).try_to_vec::<f64>()?;
            let worst = numbers.iter().position(|number| !number.is_finite());
            if let Some(element) = worst {
                return Err(self.error(CustomFault::NotFinite {
                    rule,
                    path,
                    element,
                    value: numbers[element],
                }));
            }
        }
        Ok(())
    }

    fn error(&self, fault: CustomFault) -> crate::Error {
        fault.into_error(&self.function)
    }
}
