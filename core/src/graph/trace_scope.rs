//! Scopes of transforms: values keep the path to the arguments while a scope is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One run of a function by a transform. Open until the run ends.
#[derive(Debug)]
pub(crate) struct Scope(AtomicBool);

impl Scope {
    pub(crate) fn open() -> Arc<Scope> {
        Arc::new(Scope(AtomicBool::new(true)))
    }

    pub(crate) fn close(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Set of scopes in one word, because every value has one and most are empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scopes(Option<Arc<Vec<Arc<Scope>>>>);

impl Scopes {
    pub(crate) fn one(scope: Arc<Scope>) -> Scopes {
        Scopes(Some(Arc::new(vec![scope])))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether any of the transforms is still running.
    #[inline]
    pub(crate) fn any_open(&self) -> bool {
        match &self.0 {
            None => false,
            Some(all) => all.iter().any(|scope| scope.is_open()),
        }
    }

    /// Returns the union of both sets, without closed scopes if the sets have to be merged.
    pub(crate) fn union(self, other: Scopes) -> Scopes {
        match (&self.0, &other.0) {
            (_, None) => self,
            (None, _) => other,
            (Some(a), Some(b)) if Arc::ptr_eq(a, b) => self,
            (Some(a), Some(b)) => {
                let mut all: Vec<Arc<Scope>> = a.iter().filter(|s| s.is_open()).cloned().collect();
                for scope in b.iter().filter(|s| s.is_open()) {
                    if !all.iter().any(|s| Arc::ptr_eq(s, scope)) {
                        all.push(scope.clone());
                    }
                }
                Scopes((!all.is_empty()).then(|| Arc::new(all)))
            }
        }
    }
}
