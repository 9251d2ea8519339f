//! Runs of transforms, for which values keep the way from the arguments.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The run of a function by a transform, while it lasts.
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

/// Several scopes, none of them twice. Most values have none, and all have room for this: one word.
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

    /// Whether a transform is still running in one of them.
    #[inline]
    pub(crate) fn any_open(&self) -> bool {
        match &self.0 {
            None => false,
            Some(all) => all.iter().any(|scope| scope.is_open()),
        }
    }

    /// The scopes of both that are still open.
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
