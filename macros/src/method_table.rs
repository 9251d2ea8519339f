//! Tables of the standard library's functions and methods, and of those of tensors and random keys.
//!
//! They list the types that have a method, what it does with its arguments, and what it returns.

use gradloom_ir::Op;
use gradloom_ir::op::Param;

/// Classes of types that share their methods; `core/src/call/known.rs` has the same bits.
///
/// A method is listed for a class only if all types of the class have it, as an inherent method or
/// by a trait of the prelude. Otherwise a trait of the user's could supply it.
pub(crate) mod class {
    /// User-defined type that does not dereference to another type.
    pub(crate) const PLAIN: u32 = 1;
    pub(crate) const SIGNED: u32 = 1 << 1;
    pub(crate) const UNSIGNED: u32 = 1 << 2;
    /// `u8`, which has methods of unsigned integers and of characters.
    pub(crate) const BYTE: u32 = 1 << 3;
    pub(crate) const FLOAT: u32 = 1 << 4;
    pub(crate) const BOOL: u32 = 1 << 5;
    pub(crate) const CHAR: u32 = 1 << 6;
    pub(crate) const ORDERING: u32 = 1 << 7;
    pub(crate) const DURATION: u32 = 1 << 8;
    pub(crate) const DTYPE: u32 = 1 << 9;
    /// Avals, `..` and other entries of an index.
    pub(crate) const OTHER: u32 = 1 << 10;
    pub(crate) const STR: u32 = 1 << 11;
    pub(crate) const OWNED_STR: u32 = 1 << 12;
    pub(crate) const TENSOR: u32 = 1 << 13;
    pub(crate) const KEY: u32 = 1 << 14;
    pub(crate) const HALF_OPEN: u32 = 1 << 15;
    pub(crate) const INCLUSIVE: u32 = 1 << 16;
    pub(crate) const ARRAY: u32 = 1 << 17;
    pub(crate) const SLICE: u32 = 1 << 18;
    pub(crate) const VEC: u32 = 1 << 19;
    pub(crate) const DEQUE: u32 = 1 << 20;
    /// Maps and sets ordered by key.
    pub(crate) const TREE_MAP: u32 = 1 << 21;
    pub(crate) const TREE_SET: u32 = 1 << 22;
    /// Maps and sets whose order may differ between equal values.
    pub(crate) const HASH_MAP: u32 = 1 << 23;
    pub(crate) const HASH_SET: u32 = 1 << 24;
    pub(crate) const OPT: u32 = 1 << 25;
    pub(crate) const RES: u32 = 1 << 26;
    pub(crate) const TUPLE: u32 = 1 << 27;
    pub(crate) const PEEKABLE: u32 = 1 << 28;
    /// Other iterators, a class that only the macro uses.
    pub(crate) const OTHER_ITER: u32 = 1 << 29;
    /// Optimisers of this library, types that hold the function of a transform, and Jacobians.
    pub(crate) const OPTIMISER: u32 = 1 << 30;
    // Shared pointers have the bit `1 << 31`, and no methods here.

    pub(crate) const INTEGER: u32 = SIGNED | UNSIGNED | BYTE;
    /// Types that are ordered, but not all in total.
    pub(crate) const COMPARED: u32 = TOTAL | FLOAT;
    /// Types that implement `Ord`.
    pub(crate) const TOTAL: u32 = INTEGER | BOOL | CHAR | ORDERING | DURATION | DTYPE;
    /// Numbers, `bool`, `char`, dtypes.
    pub(crate) const SCALAR: u32 = COMPARED | OTHER;
    pub(crate) const TEXT: u32 = STR | OWNED_STR;
    pub(crate) const RANGE: u32 = HALF_OPEN | INCLUSIVE;
    /// Types with the methods of slices.
    pub(crate) const SLICES: u32 = ARRAY | SLICE | VEC;
    /// Lists whose length may change.
    pub(crate) const GROWING: u32 = VEC | DEQUE;
    pub(crate) const LIST: u32 = SLICES | DEQUE;
    /// Maps ordered by key.
    pub(crate) const MAP: u32 = TREE_MAP | TREE_SET;
    /// Maps and sets whose order may differ between equal values.
    pub(crate) const HASH: u32 = HASH_MAP | HASH_SET;
    /// Options and results.
    pub(crate) const OPTION: u32 = OPT | RES;
    pub(crate) const ITER: u32 = OTHER_ITER | PEEKABLE;
    /// All types that are not user-defined.
    pub(crate) const KNOWN: u32 = !PLAIN;
    /// Types whose default values do not depend on a type of the user's.
    pub(crate) const WITH_DEFAULT: u32 =
        SCALAR | TEXT | SLICE | GROWING | MAP | HASH | OPT | OPTIMISER;
    /// Types that `for` iterates over in the same order for equal values.
    pub(crate) const ORDERED: u32 = RANGE | LIST | MAP | OPTION;
}
use class::*;

/// Result of a method.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MethodResult {
    /// Value of the receiver's type.
    Same,
    Scalar,
    Text,
    Tensor,
    Key,
    Nothing,
    /// Element of the receiver.
    Elem,
    /// The argument at this position.
    Arg(usize),
    /// Result of the closure.
    Result,
    /// Element of the argument.
    InArg,
    /// Element of the closure's result.
    InResult,
    /// Element of the receiver's elements, as for `flatten`.
    InElem,
    Opt(&'static MethodResult),
    List(&'static MethodResult),
    Iter(&'static MethodResult),
    Pair(&'static MethodResult, &'static MethodResult),
    /// Key or value of a map.
    Part,
    /// Value of an inferred type.
    Inferred,
}

/// Use of the arguments by a method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ArgumentUse {
    /// Reads them, so their types have to be known.
    Values,
    /// Moves them.
    Moves,
    /// Iterates over them.
    Iterates,
    /// Calls closures with one element.
    Each,
    /// Calls closures with one element, and compares their results.
    Key,
    /// Calls closures with two elements.
    Two,
    /// Moves its first argument, and calls a closure with an accumulator of that type and an
    /// element.
    Fold,
    /// Calls closures without arguments.
    Thunk,
}

/// Effects of a method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Effect {
    /// Computes a result, and may modify its receiver. Values of the classes in the row do not
    /// share their contents, so nothing else sees the change.
    Computes,
    /// Compares, adds or formats elements of its receiver, so their types have to be known.
    UsesElements,
    /// Compares keys of its receiver, so their type has to be known.
    UsesKeys,
    /// Waits for the elements of a tensor.
    Reads,
}

/// Methods that differ only in their names.
pub(crate) struct Row {
    /// Classes of types that have these methods.
    pub(crate) of: u32,
    pub(crate) names: &'static [&'static str],
    pub(crate) gives: MethodResult,
    pub(crate) takes: ArgumentUse,
    pub(crate) does: Effect,
}

const fn row(
    of: u32,
    names: &'static [&'static str],
    gives: MethodResult,
    takes: ArgumentUse,
) -> Row {
    Row {
        of,
        names,
        gives,
        takes,
        does: Effect::Computes,
    }
}

const fn using(
    of: u32,
    names: &'static [&'static str],
    gives: MethodResult,
    takes: ArgumentUse,
) -> Row {
    Row {
        of,
        names,
        gives,
        takes,
        does: Effect::UsesElements,
    }
}

/// Methods of maps and sets that compare keys.
const fn keyed(
    of: u32,
    names: &'static [&'static str],
    gives: MethodResult,
    takes: ArgumentUse,
) -> Row {
    Row {
        of,
        names,
        gives,
        takes,
        does: Effect::UsesKeys,
    }
}

const ELEM: MethodResult = MethodResult::Elem;
const SAME: MethodResult = MethodResult::Same;
const NUMBER: MethodResult = MethodResult::Scalar;
const STRING: MethodResult = MethodResult::Text;
const PART: MethodResult = MethodResult::Part;
const PAIR: MethodResult = MethodResult::Pair(&NUMBER, &NUMBER);
const OPT_ELEM: MethodResult = MethodResult::Opt(&ELEM);
const OPT_NUMBER: MethodResult = MethodResult::Opt(&NUMBER);
const NEXT: MethodResult = MethodResult::Iter(&ELEM);

const GOES: u32 = ITER | RANGE;
const MAPS: u32 = MAP | HASH;

/// All known methods.
#[rustfmt::skip]
pub(crate) const METHODS: &[Row] = {
    use ArgumentUse::{Each, Fold, Iterates, Key, Moves, Thunk, Two, Values};
    &[
        // Methods of every type.
        row(KNOWN, &["clone", "to_owned"], SAME, Values),
        row(SLICES | TEXT | OPTION | TENSOR, &["as_ref"], SAME, Values),
        row(SLICES | OPTION, &["as_mut"], SAME, Values),
        row(GOES, &["by_ref"], SAME, Values),
        row(COMPARED | TEXT | LIST | MAPS | OPTION | TUPLE | RANGE, &["eq", "ne"], NUMBER, Values),
        // Numbers.
        row(FLOAT, &[
            "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "exp", "exp2",
            "exp_m1", "floor", "fract", "hypot", "is_finite", "is_infinite", "is_nan", "is_normal", "is_sign_negative",
            "is_sign_positive", "is_subnormal", "ln", "ln_1p", "log", "log10", "log2", "mul_add", "next_down", "next_up", "powf",
            "powi", "recip", "round", "round_ties_even", "sin", "sinh", "sqrt", "tan", "tanh", "to_bits", "to_degrees",
            "to_radians", "total_cmp", "trunc",
        ], NUMBER, Thunk),
        row(INTEGER, &[
            "count_ones", "count_zeros", "ilog", "ilog10", "ilog2", "isqrt", "leading_zeros", "pow", "rotate_left", "rotate_right",
            "saturating_pow", "swap_bytes", "trailing_zeros", "wrapping_add", "wrapping_mul", "wrapping_neg", "wrapping_pow",
            "wrapping_rem", "wrapping_sub",
        ], NUMBER, Thunk),
        row(UNSIGNED | BYTE, &["div_ceil", "is_multiple_of", "is_power_of_two", "next_multiple_of", "next_power_of_two"], NUMBER, Thunk),
        row(SIGNED, &["is_negative", "is_positive", "unsigned_abs"], NUMBER, Thunk),
        row(SIGNED | FLOAT, &["abs", "signum"], NUMBER, Thunk),
        row(INTEGER | FLOAT, &["div_euclid", "midpoint", "rem_euclid"], NUMBER, Thunk),
        row(INTEGER | DURATION, &["abs_diff", "saturating_add", "saturating_mul", "saturating_sub"], NUMBER, Thunk),
        row(COMPARED, &["clamp", "max", "min"], NUMBER, Thunk),
        row(CHAR, &["is_alphabetic", "is_alphanumeric", "is_lowercase", "is_numeric", "is_uppercase", "is_whitespace"], NUMBER, Thunk),
        row(CHAR | BYTE, &["is_ascii"], NUMBER, Thunk),
        row(ORDERING, &["is_eq", "is_ge", "is_gt", "is_le", "is_lt", "is_ne", "reverse", "then_with"], NUMBER, Thunk),
        row(DTYPE, &["is_float", "size"], NUMBER, Values),
        row(TOTAL | TEXT, &["cmp"], NUMBER, Values),
        row(COMPARED | TEXT, &["ge", "gt", "le", "lt"], NUMBER, Values),
        row(COMPARED | TEXT, &["partial_cmp"], OPT_NUMBER, Values),
        row(INTEGER | DURATION, &["checked_add", "checked_div", "checked_mul", "checked_sub"], OPT_NUMBER, Values),
        row(INTEGER, &["checked_ilog2", "checked_neg", "checked_pow", "checked_rem", "checked_shl", "checked_shr"], OPT_NUMBER, Values),
        row(UNSIGNED | BYTE, &["checked_next_multiple_of", "checked_next_power_of_two"], OPT_NUMBER, Values),
        row(SIGNED, &["checked_isqrt"], OPT_NUMBER, Values),
        row(CHAR, &["to_digit"], OPT_NUMBER, Values),
        row(FLOAT, &["sin_cos"], PAIR, Values),
        row(INTEGER, &["overflowing_add", "overflowing_mul", "overflowing_sub"], PAIR, Values),
        row(BOOL, &["then"], MethodResult::Opt(&MethodResult::Result), Thunk),
        row(BOOL, &["then_some"], MethodResult::Opt(&MethodResult::Arg(0)), Moves),
        row(INTEGER | FLOAT, &["to_be_bytes", "to_le_bytes", "to_ne_bytes"], MethodResult::List(&NUMBER), Values),
        row(INTEGER | FLOAT | BOOL | CHAR | DTYPE | TEXT, &["to_string"], STRING, Values),
        row(CHAR | TEXT, &["to_lowercase", "to_uppercase"], STRING, Values),
        // The target type decides; between types of these classes the conversion is the standard
        // library's.
        row(SCALAR | TEXT | LIST, &["into"], MethodResult::Inferred, Values),
        row(SCALAR | LIST, &["try_into"], MethodResult::Opt(&MethodResult::Inferred), Values),
        // Text.
        row(TEXT, &[
            "strip_prefix", "strip_suffix", "trim", "trim_end", "trim_end_matches", "trim_matches", "trim_start",
            "trim_start_matches", "repeat", "replace", "replacen",
        ], STRING, Values),
        row(OWNED_STR, &["as_str"], STRING, Values),
        row(TEXT, &[
            "contains", "starts_with", "ends_with", "eq_ignore_ascii_case", "is_empty", "len", "is_ascii", "is_char_boundary",
        ], NUMBER, Values),
        row(TEXT, &["find", "rfind"], OPT_NUMBER, Values),
        row(OWNED_STR, &["push", "push_str", "clear", "truncate", "insert"], MethodResult::Nothing, Moves),
        row(TEXT, &["parse"], MethodResult::Opt(&MethodResult::Inferred), Values),
        row(TEXT, &["split_once", "rsplit_once"], MethodResult::Opt(&MethodResult::Pair(&STRING, &STRING)), Values),
        row(TEXT, &["lines", "split", "split_whitespace", "rsplit", "splitn", "rsplitn", "split_terminator"], MethodResult::Iter(&STRING), Values),
        row(TEXT, &["chars", "bytes"], MethodResult::Iter(&NUMBER), Values),
        row(TEXT, &["char_indices"], MethodResult::Iter(&PAIR), Values),
        row(TEXT, &["as_bytes"], MethodResult::List(&NUMBER), Values),
        row(TEXT, &["get"], MethodResult::Opt(&STRING), Values),
        // Ranges.
        row(RANGE, &["is_empty", "contains"], NUMBER, Values),
        row(INCLUSIVE, &["start", "end"], NUMBER, Values),
        // Lists.
        row(LIST, &["len", "is_empty"], NUMBER, Values),
        row(LIST, &["iter", "iter_mut", "into_iter"], NEXT, Values),
        row(GROWING, &["drain"], NEXT, Values),
        row(SLICES, &["first", "last", "first_mut", "last_mut"], OPT_ELEM, Values),
        row(LIST, &["get", "get_mut"], OPT_ELEM, Values),
        row(VEC, &["pop"], OPT_ELEM, Values),
        row(DEQUE, &["pop_front", "pop_back", "front", "back"], OPT_ELEM, Values),
        row(GROWING, &["remove"], ELEM, Values),
        row(VEC, &["swap_remove"], ELEM, Values),
        row(SLICES, &["split_first", "split_last"], MethodResult::Opt(&MethodResult::Pair(&ELEM, &SAME)), Values),
        row(SLICES, &["split_at", "split_at_mut"], MethodResult::Pair(&SAME, &SAME), Values),
        row(SLICES, &["windows", "chunks", "chunks_exact", "chunks_mut", "rchunks"], MethodResult::Iter(&SAME), Values),
        row(SLICES, &["to_vec"], SAME, Values),
        row(GROWING, &["split_off"], SAME, Values),
        row(ARRAY | VEC, &["as_slice", "as_mut_slice"], SAME, Values),
        row(VEC, &["into_boxed_slice"], SAME, Values),
        row(SLICE, &["into_vec"], SAME, Values),
        row(ARRAY, &["each_ref"], SAME, Values),
        row(VEC, &["push"], MethodResult::Nothing, Moves),
        row(DEQUE, &["push_back", "push_front"], MethodResult::Nothing, Moves),
        row(GROWING, &["insert", "resize"], MethodResult::Nothing, Moves),
        row(SLICES, &["fill"], MethodResult::Nothing, Moves),
        row(GROWING, &["extend", "append"], MethodResult::Nothing, Iterates),
        row(VEC, &["extend_from_slice"], MethodResult::Nothing, Values),
        row(SLICES, &["copy_from_slice", "clone_from_slice", "reverse"], MethodResult::Nothing, Values),
        row(GROWING, &["clear", "truncate"], MethodResult::Nothing, Values),
        row(LIST, &["swap", "rotate_left", "rotate_right"], MethodResult::Nothing, Values),
        row(GROWING, &["retain"], MethodResult::Nothing, Each),
        row(SLICES, &["sort_by_key", "sort_unstable_by_key", "sort_by_cached_key"], MethodResult::Nothing, Key),
        row(SLICES, &["sort_by", "sort_unstable_by"], MethodResult::Nothing, Two),
        row(VEC, &["dedup_by"], MethodResult::Nothing, Two),
        row(ARRAY, &["map"], MethodResult::List(&MethodResult::Result), Each),
        row(SLICES, &["split"], MethodResult::Iter(&SAME), Each),
        row(SLICES, &["chunk_by"], MethodResult::Iter(&SAME), Two),
        row(SLICES, &["is_sorted_by"], NUMBER, Two),
        using(SLICES, &["sort", "sort_unstable"], MethodResult::Nothing, Values),
        using(VEC, &["dedup"], MethodResult::Nothing, Values),
        using(LIST, &["contains"], NUMBER, Values),
        using(SLICES, &["starts_with", "ends_with", "is_sorted"], NUMBER, Values),
        using(LIST, &["binary_search"], OPT_NUMBER, Values),
        using(SLICES, &["concat"], ELEM, Values),
        using(SLICES, &["join"], MethodResult::Inferred, Values),
        // Options and results.
        row(OPT, &["is_some", "is_none"], NUMBER, Values),
        row(RES, &["is_ok", "is_err"], NUMBER, Values),
        row(OPT, &["is_some_and", "is_none_or"], NUMBER, Each),
        row(RES, &["is_ok_and"], NUMBER, Each),
        row(OPTION, &["unwrap", "unwrap_or_else"], ELEM, Thunk),
        row(OPTION, &["expect", "unwrap_or"], ELEM, Moves),
        using(OPTION, &["unwrap_or_default"], ELEM, Values),
        row(OPTION, &["as_deref", "as_deref_mut", "copied", "cloned", "or_else", "flatten", "transpose"], SAME, Thunk),
        row(OPT, &["take"], SAME, Thunk),
        row(RES, &["ok"], SAME, Thunk),
        row(OPTION, &["or"], SAME, Moves),
        row(OPT, &["xor", "replace", "insert", "get_or_insert", "ok_or"], SAME, Moves),
        row(OPT, &["ok_or_else", "get_or_insert_with"], SAME, Thunk),
        row(RES, &["map_err"], SAME, Thunk),
        row(OPTION, &["iter", "into_iter"], NEXT, Values),
        row(OPTION, &["map"], MethodResult::Opt(&MethodResult::Result), Each),
        row(OPTION, &["and_then"], MethodResult::Opt(&MethodResult::InResult), Each),
        row(OPT, &["filter"], SAME, Each),
        row(OPTION, &["inspect"], SAME, Each),
        row(OPTION, &["map_or"], MethodResult::Result, Each),
        row(OPTION, &["map_or_else"], MethodResult::Result, Each),
        row(OPT, &["zip"], MethodResult::Opt(&MethodResult::Pair(&ELEM, &MethodResult::InArg)), Moves),
        row(OPTION, &["and"], MethodResult::Arg(0), Moves),
        // Maps.
        row(MAPS, &["len", "is_empty"], NUMBER, Values),
        keyed(TREE_MAP | HASH_MAP, &["contains_key"], NUMBER, Values),
        keyed(TREE_SET | HASH_SET, &["contains"], NUMBER, Values),
        keyed(MAPS, &["get", "remove"], MethodResult::Opt(&PART), Values),
        keyed(MAPS, &["insert"], MethodResult::Opt(&PART), Moves),
        keyed(TREE_MAP | HASH_MAP, &["get_mut"], MethodResult::Opt(&PART), Values),
        row(MAP, &["iter", "into_iter"], MethodResult::Iter(&MethodResult::Pair(&PART, &PART)), Values),
        row(TREE_MAP, &["keys", "values", "into_keys", "into_values", "values_mut"], MethodResult::Iter(&PART), Values),
        row(MAP, &["range"], MethodResult::Iter(&PART), Values),
        row(TREE_MAP, &["first_key_value", "last_key_value"], MethodResult::Opt(&MethodResult::Pair(&PART, &PART)), Values),
        // Iterators.
        row(GOES, &["rev", "skip", "take", "step_by", "cycle", "copied", "cloned", "fuse", "peekable", "into_iter"], NEXT, Values),
        row(GOES, &["filter", "skip_while", "take_while", "inspect"], NEXT, Each),
        row(GOES, &["map"], MethodResult::Iter(&MethodResult::Result), Each),
        row(GOES, &["filter_map", "flat_map", "map_while"], MethodResult::Iter(&MethodResult::InResult), Each),
        row(GOES, &["flatten"], MethodResult::Iter(&MethodResult::InElem), Values),
        row(GOES, &["enumerate"], MethodResult::Iter(&MethodResult::Pair(&NUMBER, &ELEM)), Values),
        row(GOES, &["zip"], MethodResult::Iter(&MethodResult::Pair(&ELEM, &MethodResult::InArg)), Iterates),
        row(GOES, &["chain"], NEXT, Iterates),
        row(GOES, &["scan"], MethodResult::Iter(&MethodResult::InResult), Fold),
        row(GOES, &["fold", "rfold"], MethodResult::Arg(0), Fold),
        row(GOES, &["try_fold"], MethodResult::Result, Fold),
        row(GOES, &["for_each"], MethodResult::Nothing, Each),
        row(GOES, &["try_for_each"], MethodResult::Result, Each),
        row(GOES, &["all", "any"], NUMBER, Each),
        row(GOES, &["position", "rposition"], OPT_NUMBER, Each),
        row(GOES, &["find", "rfind"], OPT_ELEM, Each),
        row(GOES, &["find_map"], MethodResult::Opt(&MethodResult::InResult), Each),
        row(GOES, &["max_by", "min_by", "reduce"], OPT_ELEM, Two),
        row(GOES, &["max_by_key", "min_by_key"], OPT_ELEM, Key),
        row(GOES, &["partition"], MethodResult::Pair(&MethodResult::List(&ELEM), &MethodResult::List(&ELEM)), Each),
        row(GOES, &["next", "next_back", "nth", "nth_back", "last"], OPT_ELEM, Values),
        row(PEEKABLE, &["peek"], OPT_ELEM, Values),
        row(GOES, &["count", "len"], NUMBER, Values),
        using(GOES, &["max", "min"], OPT_ELEM, Values),
        using(GOES, &["sum", "product"], ELEM, Values),
        using(GOES, &["is_sorted"], NUMBER, Values),
        using(GOES, &["eq", "ne", "lt", "le", "gt", "ge", "cmp"], NUMBER, Values),
        row(GOES, &["collect"], MethodResult::List(&ELEM), Values),
        row(GOES, &["unzip"], MethodResult::Pair(&MethodResult::List(&MethodResult::Inferred), &MethodResult::List(&MethodResult::Inferred)), Values),
        // Random keys.
        row(KEY, &["bits", "uniform", "normal", "bernoulli", "permutation"], MethodResult::Tensor, Values),
        row(KEY, &["duplicate", "fold_in", "split_lanes"], MethodResult::Key, Values),
        row(KEY, &["split"], MethodResult::Pair(&MethodResult::Key, &MethodResult::Key), Values),
        row(KEY, &["split_n", "split_many"], MethodResult::List(&MethodResult::Key), Values),
        // Tensors, beside their ops.
        row(TENSOR, &["rank", "numel", "dtype", "aval", "dim", "batch_dims"], NUMBER, Values),
        row(TENSOR, &["rows"], MethodResult::Iter(&MethodResult::Tensor), Values),
        row(TENSOR, &TENSOR_LISTS, MethodResult::List(&MethodResult::Tensor), Values),
        row(RANGE | OTHER, &["by"], NUMBER, Values),
        // Jacobians.
        row(OPTIMISER, &["row"], MethodResult::Inferred, Thunk),
        row(TENSOR, &["shape", "batch_shape", "physical_shape"], MethodResult::List(&NUMBER), Values),
        row(TENSOR, &["add", "sub", "mul", "div", "neg", "i", "set", "add_at"], MethodResult::Tensor, Values),
        row(TENSOR, &CHANGES_PREFIX, MethodResult::Tensor, Values),
        row(TENSOR, gradloom_ir::Composite::NAMES, MethodResult::Tensor, Values),
        Row { of: KEY, names: &["into_words"], gives: MethodResult::List(&NUMBER), takes: Values, does: Effect::Reads },
        Row { of: TENSOR, names: &["is_realised", "item", "try_item", "to_vec", "try_to_vec", "to_le_bytes", "try_to_le_bytes", "to_ndarray"], gives: MethodResult::Inferred, takes: Values, does: Effect::Reads },
    ]
};

/// Known functions, by the last two segments of their paths, with what they return.
#[rustfmt::skip]
pub(crate) const FUNCTIONS: &[(&[&str], MethodResult, ArgumentUse)] = {
    use ArgumentUse::{Moves, Thunk, Values};
    &[
        (&["Box::new", "array::from_ref", "slice::from_ref", "hint::black_box"], MethodResult::Arg(0), Moves),
        (&["Some", "Ok", "Option::Some", "Result::Ok"], MethodResult::Opt(&MethodResult::Arg(0)), Moves),
        (&["iter::repeat", "iter::repeat_n", "iter::once"], MethodResult::Iter(&MethodResult::Arg(0)), Moves),
        (&["Err", "Result::Err"], MethodResult::Opt(&MethodResult::Inferred), Moves),
        (&["drop", "mem::drop", "mem::swap"], MethodResult::Nothing, Moves),
        (&["mem::replace", "mem::take", "convert::identity"], MethodResult::Arg(0), Moves),
        (&["Vec::new", "Vec::with_capacity", "Vec::default", "iter::empty", "VecDeque::new", "VecDeque::with_capacity", "VecDeque::default"], MethodResult::List(&MethodResult::Inferred), Values),
        (&["BTreeMap::new", "BTreeMap::default", "BTreeSet::new", "BTreeSet::default", "HashMap::new", "HashMap::default", "HashMap::with_capacity", "HashSet::new", "HashSet::default", "HashSet::with_capacity", "BTreeMap::from", "BTreeSet::from", "HashMap::from", "HashSet::from", "VecDeque::from"], MethodResult::Inferred, Values),
        (&["Rc::new", "Arc::new", "Cow::Borrowed", "Cow::Owned"], MethodResult::Inferred, Moves),
        (&["String::new", "String::from", "String::with_capacity", "str::from_utf8"], MethodResult::Text, Values),
        (&["Vec::from", "Vec::from_iter"], MethodResult::List(&MethodResult::InArg), Values),
        (&["array::from_fn", "iter::from_fn", "iter::repeat_with", "iter::successors"], MethodResult::List(&MethodResult::Result), Thunk),
        (&["iter::zip"], MethodResult::List(&MethodResult::Inferred), Values),
        (&["cmp::max", "cmp::min", "Rc::clone", "Arc::clone"], MethodResult::Arg(0), Values),
        (&["mem::size_of", "size_of"], MethodResult::Scalar, Values),
        (&["Duration::from_secs", "Duration::from_millis", "char::from_digit", "char::from_u32"], MethodResult::Scalar, Values),
        (&["Key::new", "Key::from_words"], MethodResult::Key, Values),
    ]
};

/// Types of the standard library that are known by the names of their functions where rustc cannot
/// be asked.
pub(crate) const BY_NAME: [&str; 4] = ["Box", "String", "Vec", "VecDeque"];

/// Types of the standard library with functions of whose paths rustc is asked.
pub(crate) const OWNERS: [&str; 11] = [
    "Arc", "BTreeMap", "BTreeSet", "Box", "Cow", "HashMap", "HashSet", "Rc", "String", "Vec",
    "VecDeque",
];

/// Types of `gradloom::optim` that consist of numbers.
#[rustfmt::skip]
pub(crate) const OPTIMISERS: [&str; 9] = [
    "Adafactor", "Adagrad", "Adam", "AdamW", "Average", "Lamb", "Lion", "RmsProp", "Sgd",
];

/// Associated functions of `Tensor` that are not ops.
pub(crate) const OF_TENSORS: &[&str] = &[
    "from",
    "from_ndarray",
    "einsum",
    "from_vec",
    "scalar",
    "linspace",
    "logspace",
    "geomspace",
    "hann",
    "hamming",
    "blackman",
    "bartlett",
    "tri",
    "tril_indices",
    "triu_indices",
    "meshgrid",
    "try_from_bytes",
    "try_from_le_bytes",
    "try_from_vec",
    "clone",
    "as_ref",
];

/// Associated functions of number types that are not methods, by class of the type.
const OF_NUMBERS: &[(u32, &[&str])] = &[
    (INTEGER | FLOAT | BOOL | CHAR, &["default", "from"]),
    (INTEGER | CHAR, &["try_from"]),
    (
        INTEGER | FLOAT,
        &["from_be_bytes", "from_le_bytes", "from_ne_bytes"],
    ),
    (INTEGER, &["from_str_radix"]),
    (FLOAT, &["from_bits"]),
    (CHAR, &["from_digit", "from_u32"]),
];

/// Number types.
pub(crate) const NUMBERS: [&str; 16] = [
    "bool", "char", "f32", "f64", "i128", "i16", "i32", "i64", "i8", "isize", "u128", "u16", "u32",
    "u64", "u8", "usize",
];

/// Macros without side effects other than those of their arguments.
pub(crate) const MACROS: &[&str] = &[
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "format",
    "vec",
    "matches",
];

/// Macros that diverge: a call that panics is not cached.
pub(crate) const PANICS: &[&str] = &["panic", "unreachable", "unimplemented", "todo"];

/// Macros that expand to constants.
pub(crate) const CONSTANTS: &[&str] = &[
    "cfg",
    "column",
    "concat",
    "env",
    "file",
    "line",
    "module_path",
    "stringify",
];

/// Transforms of functions, and loops and branches that run functions, with the positions of the
/// functions among their arguments. Some have the names of companions.
const TRANSFORMS: &[(&str, &[usize])] = &[
    ("associative_scan", &[0]),
    ("checkpoint", &[0]),
    ("cond", &[1, 2]),
    ("custom_call", &[0]),
    ("custom_jvp", &[0, 1]),
    ("custom_vjp", &[0, 1, 2]),
    ("fori_loop", &[1]),
    ("grad", &[0]),
    ("hessian", &[0]),
    ("hvp", &[0]),
    ("jacfwd", &[0]),
    ("jacrev", &[0]),
    ("jvp", &[0]),
    ("linear_transpose", &[0]),
    ("linearize", &[0]),
    ("map", &[0]),
    ("scan", &[0]),
    ("switch", &[1]),
    ("try_custom_call", &[0]),
    ("value_and_grad", &[0]),
    ("vjp", &[0]),
    ("vmap", &[0]),
    ("while_loop", &[0, 1]),
];

/// Returns the positions of the functions among the arguments of a transform, a loop or a branch.
pub(crate) fn functions_of(transform: &str) -> Option<&'static [usize]> {
    let mut transforms = TRANSFORMS.iter();
    let found = transforms.find(|(name, _)| *name == transform);
    found.map(|(_, positions)| *positions)
}

/// Returns [`functions_of`] a function that is called by a path with these last two names, if it may be
/// one of this library.
///
/// The name of a custom call is rarely used for anything else, so any module may precede it.
pub(crate) fn functions_of_path(owner: &str, name: &str) -> Option<&'static [usize]> {
    let in_module = !owner.starts_with(char::is_uppercase);
    let ours = ["", "gradloom"].contains(&owner) || in_module && is_custom_call(name);
    functions_of(name).filter(|_| ours)
}

/// Returns whether a function of this name calls a custom function, which is a value.
pub(crate) fn is_custom_call(name: &str) -> bool {
    ["custom_call", "try_custom_call"].contains(&name)
}

/// Types of this library that hold the function of a transform, with their methods.
///
/// `new` takes the function, `call` runs it, and the other methods return the changed transform.
pub(crate) const BUILDERS: &[(&str, &[&str])] = &[
    ("AssociativeScan", &["axis", "call", "clone", "reverse"]),
    ("Checkpoint", &["call", "clone", "keep"]),
    ("Scan", &["call", "checkpoint", "clone", "reverse", "turns"]),
    (
        "Vmap",
        &[
            "axis_size",
            "call",
            "clone",
            "in_axes",
            "out_axes",
            "spmd_axis_name",
        ],
    ),
];

/// Returns the methods of a type that holds the function of a transform.
pub(crate) fn methods_of_builder(ty: &str) -> Option<&'static [&'static str]> {
    let mut builders = BUILDERS.iter();
    let found = builders.find(|(name, _)| *name == ty);
    found.map(|(_, methods)| *methods)
}

/// Methods of slices and of `str` that `Vec` and `String` have themselves, or by traits.
const OWN: &[&str] = &[
    "as_bytes",
    "as_ref",
    "clone",
    "cmp",
    "eq",
    "into",
    "into_iter",
    "is_empty",
    "len",
    "ne",
    "to_owned",
    "to_string",
];

/// Returns the class of a number type.
fn class_of_number(name: &str) -> Option<u32> {
    Some(match name {
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => SIGNED,
        "u16" | "u32" | "u64" | "u128" | "usize" => UNSIGNED,
        "u8" => BYTE,
        "f32" | "f64" => FLOAT,
        "bool" => BOOL,
        "char" => CHAR,
        _ => return None,
    })
}

/// Returns whether the path `owner::name` is a function of a number type.
pub(crate) fn is_of_number(owner: &str, name: &str) -> bool {
    class_of_number(owner).is_some_and(|class| {
        let mut functions = OF_NUMBERS.iter();
        functions.any(|(of, names)| of & class != 0 && names.contains(&name))
            || methods(name).any(|row| row.of & class != 0)
    })
}

/// Returns the class of a type of the standard library, and the row of its method `owner::name`.
pub(crate) fn associated(owner: &str, name: &str) -> Option<(u32, &'static Row)> {
    let class = match owner {
        // `str` and slices have most of the methods of `String` and `Vec`, but not by a path.
        "Vec" => VEC,
        "Option" => OPT,
        "Result" => RES,
        "String" => OWNED_STR,
        "str" => STR,
        _ => return None,
    };
    let behind = match class {
        VEC => SLICE,
        OWNED_STR => STR,
        _ => 0,
    };
    let own = |row: &&Row| row.of & class != 0 && (row.of & behind == 0 || OWN.contains(&name));
    methods(name).find(own).map(|row| (class, row))
}

/// Returns whether a type of the standard library has a method of this name.
pub(crate) fn is_method(name: &str) -> bool {
    methods(name).next().is_some()
}

/// Returns the rows of the methods called `name`.
pub(crate) fn methods(name: &str) -> impl Iterator<Item = &'static Row> {
    METHODS.iter().filter(move |row| row.names.contains(&name))
}

/// Returns whether `Tensor` has a method or an associated function of this name that is an op.
pub(crate) fn is_op(name: &str) -> bool {
    let mut ops = Op::ALL.iter().flat_map(|op| op.def().methods());
    ops.any(|m| m.name == name)
}

/// Returns whether `Tensor` has a method of this name that is an op.
pub(crate) fn is_op_method(name: &str) -> bool {
    let mut ops = Op::ALL.iter().flat_map(|op| op.def().methods());
    ops.any(|m| m.name == name && !m.assoc)
}

/// Returns whether an op that is a method of this name takes a tensor beside its receiver.
pub(crate) fn takes_tensor(name: &str) -> bool {
    let mut ops = Op::ALL.iter().flat_map(|op| op.def().methods());
    let is_tensor =
        |p: &&Param| matches!(p, Param::Data | Param::DataLike | Param::Like | Param::List);
    ops.any(|m| m.name == name && !m.assoc && m.params.iter().filter(is_tensor).count() > 1)
}

/// Returns whether an op that is called by this name has several results.
pub(crate) fn gives_list(name: &str) -> bool {
    let mut ops = Op::ALL.iter().flat_map(|op| op.def().methods());
    ops.any(|m| m.name == name && (m.results > 1 || m.params.contains(&Param::Count)))
}

/// Methods of tensors that return a list of tensors whose length only the run time knows.
pub(crate) const TENSOR_LISTS: [&str; 3] = ["chunks", "split_every", "unbind_all"];

/// Methods that change the batch prefix of a tensor.
pub(crate) const CHANGES_PREFIX: [&str; 4] = [
    "incr_batch_dims",
    "decr_batch_dims",
    "move_axis_to_batch_dims",
    "move_axis_from_batch_dims",
];

/// Returns whether tensors have a method of this name that does not return tensors.
pub(crate) fn reads_tensor(name: &str) -> bool {
    let gives_tensors = |row: &Row| {
        matches!(
            row.gives,
            MethodResult::Tensor
                | MethodResult::Iter(&MethodResult::Tensor)
                | MethodResult::List(&MethodResult::Tensor)
        )
    };
    methods(name).any(|row| row.of == TENSOR && !gives_tensors(row))
}

/// Returns whether numbers, strings, lists, options or maps have a method of this name.
///
/// Ops of tensors, and methods common to all types, do not count.
pub(crate) fn is_of_values(name: &str) -> bool {
    let of = SCALAR | TEXT | LIST | OPTION | MAPS;
    let common = [
        "clone", "to_owned", "as_ref", "as_mut", "by_ref", "eq", "ne",
    ];
    !is_op_method(name) && !common.contains(&name) && methods(name).any(|row| row.of & of != 0)
}
