//! Host code as a static argument: the rules of a custom function, or a kernel of the user.

use crate::{Aval, Fault};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Host code that an op refers to. The run time knows what it does.
pub trait HostCode: Any + Send + Sync {
    /// Returns the name that programs and messages show.
    fn name(&self) -> String;

    /// Returns the number that tells the code apart in cache keys, if the value of the op depends on it.
    fn key(&self) -> Option<u64>;

    /// Returns the avals of the results.
    ///
    /// # Errors
    ///
    /// If the code refuses the operands.
    fn infer(&self, args: &[&Aval]) -> Result<Vec<Aval>, Fault>;

    /// Returns the code for a downcast.
    fn as_any(&self) -> &dyn Any;
}

/// Handle to host code. Two handles are equal if they refer to the same code.
#[derive(Clone)]
pub struct Code(Arc<dyn HostCode>);

impl Code {
    /// Returns a handle to new code.
    pub fn new(code: impl HostCode) -> Code {
        Code(Arc::new(code))
    }

    /// Returns the code.
    pub fn get(&self) -> &dyn HostCode {
        &*self.0
    }

    /// Returns the code, if it has this type.
    pub fn downcast<T: HostCode>(&self) -> Option<&T> {
        self.0.as_any().downcast_ref()
    }
}

impl std::hash::Hash for Code {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).cast::<()>().hash(state);
    }
}

impl PartialEq for Code {
    fn eq(&self, other: &Code) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Code {}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Prints the name between backticks, as host expressions are. It parses as one, without the code.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0.name().replace('`', "'"))
    }
}
