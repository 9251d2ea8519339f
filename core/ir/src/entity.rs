//! Typed ids, and maps from them to side data.
//!
//! An id is a `u32` with a type, so a [`Var`] cannot be used in place of an [`Attr`]. Ids are
//! `Copy`, and a program whose parts refer to each other by id is plain data that can be cloned,
//! compared and printed. References would borrow the program while a pass builds the next one.

use std::fmt;
use std::marker::PhantomData;

/// An id that can index a [`SecondaryMap`].
pub trait Entity: Copy {
    /// Returns the position of this id.
    fn index(self) -> usize;
    /// Returns the id at position `index`.
    fn from_index(index: usize) -> Self;
}

macro_rules! entity {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl Entity for $name {
            fn index(self) -> usize {
                self.0 as usize
            }
            fn from_index(index: usize) -> Self {
                $name(u32::try_from(index).expect("a program has fewer than 2^32 ids"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

entity! {
    /// A value of a program, bound once. Prints as `v3`.
    Var, "v"
}
entity! {
    /// A static argument: an entry of the program's table of statics. Prints as `a3`.
    Attr, "a"
}

/// A map from ids to data, for ids that another structure owns. Unset entries read as `None`.
#[derive(Clone, Debug)]
pub struct SecondaryMap<K, V> {
    entries: Vec<Option<V>>,
    key: PhantomData<K>,
}

impl<K, V> Default for SecondaryMap<K, V> {
    fn default() -> Self {
        SecondaryMap {
            entries: Vec::new(),
            key: PhantomData,
        }
    }
}

impl<K: Entity, V> SecondaryMap<K, V> {
    /// Returns an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the data attached to `key`.
    pub fn get(&self, key: K) -> Option<&V> {
        self.entries.get(key.index())?.as_ref()
    }

    /// Returns the data attached to `key`, mutably.
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.entries.get_mut(key.index())?.as_mut()
    }

    /// Attaches `value` to `key` and returns the previous data.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let index = key.index();
        if index >= self.entries.len() {
            self.entries.resize_with(index + 1, || None);
        }
        self.entries[index].replace(value)
    }

    /// Removes the data attached to `key` and returns it.
    pub fn remove(&mut self, key: K) -> Option<V> {
        self.entries.get_mut(key.index())?.take()
    }

    /// Returns whether `key` has data attached.
    pub fn contains(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// Returns one more than the highest position that ever had data attached.
    pub fn end(&self) -> usize {
        self.entries.len()
    }

    /// Returns an iterator over the attached data, in ascending order of ids.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(i, v)| Some((K::from_index(i), v.as_ref()?)))
    }
}

impl<K: Entity, V> Extend<(K, V)> for SecondaryMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, iter: I) {
        for (key, value) in iter {
            self.insert(key, value);
        }
    }
}

impl<K: Entity, V> FromIterator<(K, V)> for SecondaryMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(iter: I) -> Self {
        let mut map = SecondaryMap::new();
        map.extend(iter);
        map
    }
}

/// Returns the number of a variable from its name in the text form, such as `v3`.
pub(crate) fn var_number(word: &str) -> Option<u32> {
    let digits = word.strip_prefix('v')?;
    // `v03` and `v+3` are names, not numbers, because they would not print the same.
    let number: u32 = digits.parse().ok()?;
    (number.to_string() == digits && number < u32::MAX / 2).then_some(number)
}

/// Returns whether `word` cannot be the user's name of a variable in the text form.
pub(crate) fn is_reserved(word: &str) -> bool {
    ["like", "return"].contains(&word) || var_number(word).is_some()
}

/// Returns whether the text form reads `word` as the user's name of a variable.
pub(crate) fn is_name(word: &str) -> bool {
    let letters = |c: char| c.is_alphanumeric() || c == '_';
    !is_reserved(word)
        && word.chars().all(letters)
        && word.starts_with(|c: char| !c.is_ascii_digit())
}
