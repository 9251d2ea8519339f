//! Free lists of a thread: small buffers, vectors and nodes that were dropped, for reuse.
//!
//! A step of a program drops as many of them as it makes, so a steady state does not allocate.
//! Entries are uniquely owned.

use gradloom_ir::DType;
use gradloom_kernels::KernelFault;
use gradloom_kernels::memory::{Buffer, pool};
use std::cell::RefCell;
use std::sync::Arc;
use std::thread::LocalKey;

/// Free list of one type.
pub(crate) type FreeList<T> = RefCell<Vec<T>>;

/// Largest length of a free list.
const MAX_LEN: usize = 256;

/// Takes an entry, if there is one. Returns `None` while the thread exits.
#[inline]
pub(crate) fn take<T>(list: &'static LocalKey<FreeList<T>>) -> Option<T> {
    let taken = list.try_with(|list| list.try_borrow_mut().ok()?.pop());
    taken.ok().flatten()
}

/// Adds an entry, or drops it if the list is full.
pub(crate) fn recycle<T>(list: &'static LocalKey<FreeList<T>>, thing: T) {
    recycle_up_to(MAX_LEN, list, thing);
}

/// Adds an entry, or drops it if the list has `most` entries.
#[inline]
pub(crate) fn recycle_up_to<T>(most: usize, list: &'static LocalKey<FreeList<T>>, thing: T) {
    let mut thing = Some(thing);
    let _ = list.try_with(|list| {
        if let Ok(mut list) = list.try_borrow_mut()
            && list.len() < most
            && let Some(thing) = thing.take()
        {
            list.push(thing);
        }
    });
    // If the list is full, the entry is dropped after the borrow ends.
    drop(thing);
}

/// Number of free lists of small buffers. Buffers of equal dtype and length are in the same list.
const LISTS: usize = 64;

/// Largest length of one list, and largest size of all lists in bytes.
const MAX_BUFFERS: usize = 32;
const MAX_BYTES: usize = 4 << 20;

struct Buffers {
    lists: [Vec<Arc<Buffer>>; LISTS],
    bytes: usize,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = const {
        RefCell::new(Buffers { lists: [const { Vec::new() }; LISTS], bytes: 0 })
    };
    /// Buffers without elements, left over when the elements of large ones went to the pool.
    static SHELLS: FreeList<Arc<Buffer>> = const { RefCell::new(Vec::new()) };
}

fn list_of(dtype: DType, n: usize) -> usize {
    (n ^ n >> 6 ^ n >> 12)
        .wrapping_mul(5)
        .wrapping_add(dtype as usize)
        % LISTS
}

/// Returns size in bytes and number of the small buffers in the free lists of this thread.
pub(crate) fn free_buffers() -> [usize; 2] {
    let found = BUFFERS.try_with(|buffers| {
        let buffers = buffers.try_borrow().ok()?;
        let n = buffers.lists.iter().map(Vec::len).sum();
        Some([buffers.bytes, n])
    });
    found.ok().flatten().unwrap_or_default()
}

/// Returns the only handle to a buffer of `n` unspecified elements.
///
/// The caller writes them before it reads them.
pub(crate) fn take_buffer(dtype: DType, n: usize) -> Result<Arc<Buffer>, KernelFault> {
    let small = n.saturating_mul(dtype.size()) < pool::LARGE;
    if small && let Some(found) = small_buffer(dtype, n) {
        return Ok(found);
    }
    let buffer = Buffer::scratch(dtype, n)?;
    if !small
        && let Some(mut shell) = take(&SHELLS)
        && let Some(place) = Arc::get_mut(&mut shell)
    {
        *place = buffer;
        return Ok(shell);
    }
    Ok(Arc::new(buffer))
}

fn small_buffer(dtype: DType, n: usize) -> Option<Arc<Buffer>> {
    let found = BUFFERS.try_with(|buffers| {
        let mut buffers = buffers.try_borrow_mut().ok()?;
        let list = &mut buffers.lists[list_of(dtype, n)];
        let i = list
            .iter()
            .rposition(|b| b.len() == n && b.dtype() == dtype)?;
        let found = list.swap_remove(i);
        buffers.bytes -= found.bytes();
        Some(found)
    });
    found.ok().flatten()
}

/// Adds a buffer to a free list if this is its only handle and its elements may be written.
pub(crate) fn recycle_buffer(mut buffer: Arc<Buffer>) {
    // A count of 1 cannot grow, because only this handle could be cloned. The count is checked
    // again when the buffer is taken.
    if Arc::strong_count(&buffer) > 1 || !buffer.is_owned() {
        return;
    }
    let bytes = buffer.bytes();
    if buffer.len() * buffer.dtype().size() >= pool::LARGE || bytes >= 2 * pool::LARGE {
        if let Some(only) = Arc::get_mut(&mut buffer) {
            only.clear();
            recycle(&SHELLS, buffer);
        }
        return;
    }
    let mut buffer = Some(buffer);
    let _ = BUFFERS.try_with(|buffers| {
        let Ok(mut buffers) = buffers.try_borrow_mut() else {
            return;
        };
        let Some(there) = &buffer else { return };
        let list = list_of(there.dtype(), there.len());
        if buffers.bytes + bytes <= MAX_BYTES && buffers.lists[list].len() < MAX_BUFFERS {
            buffers.lists[list].extend(buffer.take());
            buffers.bytes += bytes;
        }
    });
    drop(buffer);
}
