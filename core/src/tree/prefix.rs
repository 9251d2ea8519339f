//! Values for the leaves of a tree, given for parts of it.

/// A value for each part of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PrefixTree<T> {
    /// The same value for all leaves.
    All(T),
    /// The values of named parts: positions of a tuple, positions in brackets of a list, or fields.
    Parts(Vec<(String, PrefixTree<T>)>),
}

/// Reason why the parts do not fit a tree.
pub(crate) enum PrefixFault {
    /// No leaf is in the part of this name.
    NoPart(String),
    /// A leaf of a tuple or a list has no entry.
    NotCovered { path: String, entries: usize },
}

impl<T> PrefixTree<T> {
    /// Returns the values of the parts of a tuple.
    pub(crate) fn of_tuple(parts: impl IntoIterator<Item = PrefixTree<T>>) -> PrefixTree<T> {
        let parts = parts.into_iter().enumerate();
        PrefixTree::Parts(parts.map(|(i, part)| (i.to_string(), part)).collect())
    }

    /// Returns the values of the elements of a list.
    pub(crate) fn of_list(elements: impl Iterator<Item = PrefixTree<T>>) -> PrefixTree<T> {
        let elements = elements.enumerate();
        PrefixTree::Parts(elements.map(|(i, part)| (format!("[{i}]"), part)).collect())
    }

    /// Returns the value of a leaf, given its path from here, or `None` if a field on its path has no entry.
    pub(crate) fn of_path(&self, path: &str) -> Option<&T> {
        match self {
            PrefixTree::All(value) => Some(value),
            PrefixTree::Parts(parts) => parts
                .iter()
                .find_map(|(name, part)| Some(part.of_path(after(path, name)?)))?,
        }
    }

    /// Returns an error if a part names no leaf, or a tuple or list has too few entries.
    ///
    /// A leaf is given by the rest of its path from here, and by its whole path. A part without leaves, as `()`, may have
    /// an entry if `may_be_empty` is true for its name.
    pub(crate) fn check(
        &self,
        leaves: &[(&str, &str)],
        may_be_empty: fn(&str) -> bool,
    ) -> Result<(), PrefixFault> {
        let PrefixTree::Parts(parts) = self else {
            return Ok(());
        };
        for (name, part) in parts {
            let inside = leaves
                .iter()
                .filter_map(|(rest, path)| Some((after(rest, name)?, *path)));
            let inside: Vec<(&str, &str)> = inside.collect();
            if inside.is_empty() && !may_be_empty(name) {
                return Err(PrefixFault::NoPart(name.clone()));
            }
            part.check(&inside, may_be_empty)?;
        }
        // Each part of a tuple and each element of a list needs an entry.
        if parts.iter().all(|(name, _)| is_position(name)) {
            let covered = |rest: &str| parts.iter().any(|(name, _)| after(rest, name).is_some());
            if let Some((_, path)) = leaves.iter().find(|(rest, _)| !covered(rest)) {
                let (path, entries) = ((*path).to_owned(), parts.len());
                return Err(PrefixFault::NotCovered { path, entries });
            }
        }
        Ok(())
    }
}

/// Returns whether a part of a path is the position in a tuple.
pub(crate) fn is_number(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns whether a part of a path is the position in a tuple or a list.
pub(crate) fn is_position(name: &str) -> bool {
    name.starts_with('[') || is_number(name)
}

/// Returns the rest of a path after its first part, if that has this name.
pub(crate) fn after<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(name)?;
    match rest.strip_prefix('.') {
        Some(rest) => Some(rest),
        None => (rest.is_empty() || rest.starts_with('[')).then_some(rest),
    }
}

/// Implements the conversions of slices, lists of pairs and tuples to a type that holds a [`PrefixTree`].
macro_rules! prefix_conversions {
    ($ty:ident) => {
        impl<P: Clone + Into<$ty>> From<&[P]> for $ty {
            fn from(elements: &[P]) -> $ty {
                let elements = elements.iter().cloned().map(|part| part.into().0);
                $ty($crate::tree::prefix::PrefixTree::of_list(elements))
            }
        }

        impl<P: Into<$ty>, const N: usize> From<[(&str, P); N]> for $ty {
            fn from(parts: [(&str, P); N]) -> $ty {
                let part = |(name, part): (&str, P)| (name.to_owned(), part.into().0);
                let parts = parts.into_iter().map(part).collect();
                $ty($crate::tree::prefix::PrefixTree::Parts(parts))
            }
        }

        $crate::tree::prefix::prefix_conversions! { @tuples $ty:
            A;
            A B;
            A B C;
            A B C D;
            A B C D E;
            A B C D E F;
            A B C D E F G;
            A B C D E F G H;
            A B C D E F G H I;
            A B C D E F G H I J;
            A B C D E F G H I J K;
            A B C D E F G H I J K L;
        }
    };
    (@tuples $ty:ident: $($($name:ident)+;)*) => {$(
        impl<$($name: Into<$ty>),+> From<($($name,)+)> for $ty {
            fn from(parts: ($($name,)+)) -> $ty {
                #[allow(non_snake_case)]
                let ($($name,)+) = parts;
                $ty($crate::tree::prefix::PrefixTree::of_tuple([$($name.into().0),+]))
            }
        }
    )*};
}

pub(crate) use prefix_conversions;
