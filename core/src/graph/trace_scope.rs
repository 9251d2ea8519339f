//! Scopes of transforms and of graphs: values keep the path to the arguments while a scope is open.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

/// One run of a function by a transform, open until the run ends, or one epoch of a graph, open until it is released.
#[derive(Debug)]
pub(crate) struct Scope {
    is_open: AtomicBool,
    /// Epoch of a graph, if the scope is one.
    epoch: Option<GraphEpoch>,
}

/// The time between two releases of the graph of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GraphEpoch {
    /// Number of the graph, unique in the process.
    pub(crate) graph: u64,
    /// Number of releases before.
    pub(crate) number: u64,
}

impl Scope {
    pub(crate) fn open() -> Arc<Scope> {
        Scope::of(None)
    }

    pub(crate) fn of_epoch(epoch: GraphEpoch) -> Arc<Scope> {
        Scope::of(Some(epoch))
    }

    fn of(epoch: Option<GraphEpoch>) -> Arc<Scope> {
        let is_open = AtomicBool::new(true);
        Arc::new(Scope { is_open, epoch })
    }

    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }
}

/// The scope of all parameters. It is always open: `backward` follows the path to a parameter at any time.
static PARAMS: LazyLock<Scopes> = LazyLock::new(|| Scopes::one(Scope::open()));

/// Set of scopes in one word, because every value has one and most are empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scopes(Option<Arc<Vec<Arc<Scope>>>>);

impl Scopes {
    pub(crate) fn one(scope: Arc<Scope>) -> Scopes {
        Scopes(Some(Arc::new(vec![scope])))
    }

    /// Returns the set of values that depend on parameters and on nothing else that is traced.
    pub(crate) fn of_params() -> Scopes {
        PARAMS.clone()
    }

    /// Returns whether the scope of parameters is in the set.
    pub(crate) fn has_params(&self) -> bool {
        let Some(all) = &self.0 else { return false };
        PARAMS.0.as_ref().is_some_and(|params| {
            Arc::ptr_eq(all, params) || all.iter().any(|scope| Arc::ptr_eq(scope, &params[0]))
        })
    }

    /// Returns whether no scope is open but that of parameters.
    pub(crate) fn only_params_open(&self) -> bool {
        let Some(params) = &PARAMS.0 else {
            return false;
        };
        let others = self.0.iter().flat_map(|all| all.iter());
        !others
            .filter(|scope| !Arc::ptr_eq(scope, &params[0]))
            .any(|scope| scope.is_open())
    }

    /// Returns the set without the scope of parameters.
    pub(crate) fn without_params(self) -> Scopes {
        if !self.has_params() {
            return self;
        }
        let params = PARAMS.0.as_ref();
        let is_other =
            |scope: &&Arc<Scope>| params.is_some_and(|params| !Arc::ptr_eq(scope, &params[0]));
        let all = self.0.iter().flat_map(|all| all.iter());
        let others: Vec<Arc<Scope>> = all.filter(is_other).cloned().collect();
        Scopes((!others.is_empty()).then(|| Arc::new(others)))
    }

    /// Returns whether no scope is in both sets.
    pub(crate) fn is_apart(&self, other: &Scopes) -> bool {
        let mut all = self.0.iter().flat_map(|all| all.iter());
        !all.any(|scope| {
            let mut others = other.0.iter().flat_map(|all| all.iter());
            others.any(|other| Arc::ptr_eq(other, scope))
        })
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

    /// Returns the latest epoch of a graph in the set.
    pub(crate) fn epoch_in(&self, graph: u64) -> Option<u64> {
        let all = self.0.iter().flat_map(|all| all.iter());
        let epochs = all.filter_map(|scope| scope.epoch);
        let numbers = epochs.filter(|epoch| epoch.graph == graph);
        numbers.map(|epoch| epoch.number).max()
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
