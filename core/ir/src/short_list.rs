//! Lists that need no allocation while they are short.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// A list, which holds up to `N` items without an allocation.
///
/// Passes copy and drop every equation and every shape of a program several times, and most of these
/// have few operands and few axes.
#[derive(Clone)]
pub struct ShortList<T, const N: usize>(Items<T, N>);

#[derive(Clone)]
enum Items<T, const N: usize> {
    /// The number of items, and the items. Defaults follow them.
    Inline(u8, [T; N]),
    Boxed(Box<[T]>),
}

impl<T: Copy + Default, const N: usize> Default for ShortList<T, N> {
    fn default() -> Self {
        ShortList(Items::Inline(0, [T::default(); N]))
    }
}

impl<T, const N: usize> Deref for ShortList<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Items::Inline(len, items) => &items[..usize::from(*len)],
            Items::Boxed(items) => items,
        }
    }
}

impl<T, const N: usize> DerefMut for ShortList<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Items::Inline(len, items) => &mut items[..usize::from(*len)],
            Items::Boxed(items) => items,
        }
    }
}

impl<T: Copy + Default, const N: usize> FromIterator<T> for ShortList<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(iter: I) -> Self {
        let mut iter = iter.into_iter();
        let mut items = [T::default(); N];
        for len in 0..N {
            match iter.next() {
                Some(item) => items[len] = item,
                None => return ShortList(Items::Inline(len as u8, items)),
            }
        }
        ShortList(match iter.next() {
            Some(item) => Items::Boxed(items.into_iter().chain([item]).chain(iter).collect()),
            None => Items::Inline(N as u8, items),
        })
    }
}

impl<T: Copy + Default, const N: usize> From<&[T]> for ShortList<T, N> {
    fn from(items: &[T]) -> Self {
        items.iter().copied().collect()
    }
}

impl<T: Copy + Default, const N: usize, const M: usize> From<[T; M]> for ShortList<T, N> {
    fn from(items: [T; M]) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Copy + Default, const N: usize> From<Vec<T>> for ShortList<T, N> {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<'a, T, const N: usize> IntoIterator for &'a ShortList<T, N> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T, const N: usize> IntoIterator for &'a mut ShortList<T, N> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<T: PartialEq, const N: usize> PartialEq for ShortList<T, N> {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl<T: Eq, const N: usize> Eq for ShortList<T, N> {}

impl<T: Hash, const N: usize> Hash for ShortList<T, N> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self[..].hash(state);
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for ShortList<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self[..], f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Items, ShortList};
    use std::hash::{BuildHasher, RandomState};

    type List = ShortList<u32, 3>;

    #[test]
    fn a_list_holds_the_items_that_it_was_made_of() {
        let state = RandomState::new();
        for n in 0..8 {
            let items: Vec<u32> = (1..=n).collect();
            let list = List::from(items.clone());
            assert_eq!(list[..], items[..]);
            assert_eq!(list, list.clone());
            assert_eq!(state.hash_one(&list), state.hash_one(&items));
            assert_eq!(format!("{list:?}"), format!("{items:?}"));
            assert_eq!(matches!(list.0, Items::Boxed(_)), n > 3);
        }
    }

    #[test]
    fn an_item_that_is_a_default_differs_from_a_missing_one() {
        let mut list = List::from([1, 2]);
        list[1] = 0;
        assert_eq!(list, List::from([1, 0]));
        assert_ne!(list, List::from([1]));
    }
}
