//! Compiled loops that run all turns of a loop over single numbers.
//!
//! A turn reads its operands, computes, and writes its results. The next turn reads a state where this one wrote it.

use gradloom_maths::Level;

/// A compiled loop that runs all turns. Its body is one group with single numbers as operands and results.
///
/// # Safety
///
/// The CPU must support the level. There must be as many places as the group has operands and results, of its
/// dtype, and these must be valid for all turns, as [`TurnValues::new`] says.
pub type TurnLoop = unsafe fn(Level, &TurnPlaces<'_>);

/// A [`TurnLoop`] for the level of this CPU.
pub struct PlacedTurnLoop {
    pub(crate) run: TurnLoop,
    pub(crate) level: Level,
    /// Index of the address of each operand, then of each result, among those that a kernel uses.
    pub(crate) addresses: Box<[usize]>,
}

/// What the turns of a loop read and write.
pub struct TurnPlaces<'a> {
    /// The operands of the first turn, then its results.
    pub(crate) places: &'a [Moving],
    pub(crate) copies: &'a [MovingCopy],
    pub(crate) turns: usize,
}

/// An address that moves by a number of bytes after each turn.
#[derive(Clone, Copy, Debug)]
pub struct Moving {
    pub(crate) at: *mut u8,
    pub(crate) step: isize,
}

impl Moving {
    #[inline(always)]
    fn advance(&mut self) {
        self.at = self.at.wrapping_offset(self.step);
    }
}

/// A number that each turn copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MovingCopy {
    pub(crate) from: Moving,
    pub(crate) to: Moving,
    pub(crate) source: CopySource,
}

/// What a turn copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopySource {
    /// An operand, before the turn writes anything.
    Operand,
    /// A result that the turn wrote.
    Result,
}

/// The values of one turn after the other: `K` operands and `M` results of type `T`.
pub struct TurnValues<T, const K: usize, const M: usize> {
    operands: [Moving; K],
    results: [Moving; M],
    /// Copies, each with the operand that it copies, from when a turn begins until it has written its results.
    copies: Vec<(MovingCopy, Option<T>)>,
    left: usize,
}

impl<T: Copy, const K: usize, const M: usize> TurnValues<T, K, M> {
    /// # Safety
    ///
    /// In each turn, each place of an operand, and of what is copied, must hold a valid number of type `T` when the turn
    /// begins, if the turns before wrote their results. Each place of a result or of a copy must have space for one, and
    /// these must be distinct. Nothing else may use them before the last turn is over.
    ///
    /// # Panics
    ///
    /// Panics unless there are `K + M` places.
    #[inline(always)]
    pub unsafe fn new(of: &TurnPlaces<'_>) -> TurnValues<T, K, M> {
        assert_eq!(of.places.len(), K + M, "a place for each value");
        let (operands, results) = of.places.split_at(K);
        TurnValues {
            operands: std::array::from_fn(|i| operands[i]),
            results: std::array::from_fn(|i| results[i]),
            copies: of.copies.iter().map(|copy| (*copy, None)).collect(),
            left: of.turns,
        }
    }

    /// Returns the operands of the next turn, or `None` after the last one.
    ///
    /// [`write`](Self::write) must be called before the next turn.
    #[inline(always)]
    pub fn read(&mut self) -> Option<[T; K]> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        for (copy, held) in &mut self.copies {
            if copy.source == CopySource::Operand {
                // SAFETY: what is copied is valid when a turn begins, as `new` demands.
                *held = Some(unsafe { copy.from.at.cast::<T>().read() });
            }
        }
        // SAFETY: the operands of a turn are valid, as `new` demands.
        Some(std::array::from_fn(|i| unsafe {
            self.operands[i].at.cast::<T>().read()
        }))
    }

    /// Writes the results of the turn that was read last.
    #[inline(always)]
    pub fn write(&mut self, results: [T; M]) {
        for (place, result) in self.results.iter().zip(results) {
            // SAFETY: there is space for the result of each turn, as `new` demands.
            unsafe { place.at.cast::<T>().write(result) };
        }
        for (copy, held) in &mut self.copies {
            // SAFETY: a result of this turn has been written above.
            let value = held
                .take()
                .unwrap_or_else(|| unsafe { copy.from.at.cast::<T>().read() });
            // SAFETY: there is space for each copy, as `new` demands.
            unsafe { copy.to.at.cast::<T>().write(value) };
            copy.from.advance();
            copy.to.advance();
        }
        self.operands.iter_mut().for_each(Moving::advance);
        self.results.iter_mut().for_each(Moving::advance);
    }
}
