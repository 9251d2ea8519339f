//! Programs that are cut out of the graph, with the programs that transforms derive from them.
//!
//! A closure records the same ops at each call. The program of these ops is found by its key, and with it what
//! transforms derived from it before.

use crate::plan::Lowered;
use crate::plan::lru::Keyed;
use crate::{Aval, Result};
use gradloom_ir::batch::Batching;
use gradloom_ir::{Program, Static, Var};
use gradloom_kernels::lock;
use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

/// Largest total length in words of the keys of cut programs that are kept.
///
/// A program and those that are derived from it take some hundred bytes for each word.
pub(crate) const MAX_WORDS: usize = 1 << 17;

/// Number of derived programs that are kept with a program.
const MAX_DERIVED: usize = 8;

/// A program between inputs and results, `inputs..., captured..., likes... -> results...`.
pub(crate) struct CutProgram {
    program: Program,
    n_inputs: usize,
    /// Avals of the last parameters, of which only dtype and shape are read.
    pub(crate) likes: Vec<Aval>,
    /// Complete key: the ops, the avals of the leaves, and the number of inputs.
    key: Box<[u64]>,
    has_code: bool,
    derived: Mutex<Vec<(Derivation, Arc<dyn Any + Send + Sync>)>>,
}

/// What a transform derives from a program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Derivation {
    /// Reverse mode.
    Vjp,
    /// Forward mode.
    Joint,
    /// The value, and the linear map of tangents.
    Linearized,
    /// The program on all lanes, of which each input has its own value.
    Batch(Batching),
    /// The tangents of the results along all basis vectors of the inputs.
    Columns,
    /// The cotangents of the inputs along all basis vectors of the results.
    Rows,
    /// The tangents of the gradient of the first result along all basis vectors of the inputs.
    Hessian,
}

impl CutProgram {
    pub(crate) fn new(lowered: Lowered, n_inputs: usize, key: &[u64]) -> CutProgram {
        CutProgram {
            has_code: has_code(&lowered.program),
            program: lowered.program,
            n_inputs,
            likes: lowered.likes,
            key: key.into(),
            derived: Mutex::default(),
        }
    }

    /// Returns whether the program, or one that it runs, refers to host code.
    ///
    /// Such a program is not kept: the code would outlive its last user, and the key does not tell all code apart.
    pub(crate) fn has_code(&self) -> bool {
        self.has_code
    }

    /// Returns the parameters to differentiate with respect to: the inputs.
    pub(crate) fn wrt(&self) -> &[Var] {
        &self.program.params[..self.n_inputs]
    }

    /// Returns the program alone.
    pub(crate) fn into_program(self: Arc<Self>) -> Program {
        match Arc::try_unwrap(self) {
            Ok(own) => own.program,
            Err(shared) => shared.program.clone(),
        }
    }

    /// Returns what `make` derives from the program, or has derived before.
    pub(crate) fn derived<T>(
        &self,
        of: Derivation,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>>
    where
        T: Send + Sync + 'static,
    {
        // After a fork a thread of the parent may hold the lock. Nothing is kept then.
        let kept = || lock::lock(&self.derived, || false);
        let found = kept().and_then(|all| {
            let (_, found) = all.iter().find(|(kept, _)| *kept == of)?;
            Some(found.clone())
        });
        if let Some(found) = found {
            let found = found.downcast();
            return Ok(found.expect("each derivation has a type of its own"));
        }
        let made = Arc::new(make()?);
        if let Some(mut all) = kept() {
            all.truncate(MAX_DERIVED - 1);
            all.insert(0, (of, made.clone()));
        }
        Ok(made)
    }
}

impl Deref for CutProgram {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.program
    }
}

impl Keyed for CutProgram {
    fn key(&self) -> &[u64] {
        &self.key
    }
}

/// Returns whether a program, or one that it runs, refers to host code.
fn has_code(program: &Program) -> bool {
    program.attrs.iter().any(|value| match value {
        Static::Code(_) => true,
        value => value.programs().into_iter().flatten().any(has_code),
    })
}

#[cfg(test)]
mod tests {
    use super::{CutProgram, Derivation, MAX_DERIVED};
    use crate::plan::Lowered;
    use crate::{Error, Result};
    use gradloom_ir::Program;

    fn program() -> CutProgram {
        let lowered = Lowered {
            program: Program::default(),
            likes: Vec::new(),
        };
        CutProgram::new(lowered, 0, &[])
    }

    #[test]
    fn a_derivation_is_made_once_unless_it_fails() {
        let program = program();
        let error = || -> Result<i32> { Err(Error::Lane) };
        assert!(program.derived(Derivation::Vjp, error).is_err());
        assert_eq!(*program.derived(Derivation::Vjp, || Ok(1)).unwrap(), 1);
        assert_eq!(*program.derived(Derivation::Vjp, || Ok(2)).unwrap(), 1);
        assert_eq!(*program.derived(Derivation::Rows, || Ok(3)).unwrap(), 3);
    }

    #[test]
    fn the_number_of_derivations_is_bounded() {
        let program = program();
        let batch = |len: usize| {
            let made = program.derived(Derivation::Batch(len.into()), || Ok(len));
            assert_eq!(*made.unwrap(), len);
            program.derived.lock().unwrap().len()
        };
        assert_eq!((0..3 * MAX_DERIVED).map(batch).max(), Some(MAX_DERIVED));
    }
}
