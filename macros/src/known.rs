//! Tables of the standard library's functions and methods, and of those of tensors and random keys.
//!
//! They list the types that have a method, what it does with its arguments, and what it returns.

use gradloom_ir::Op;

/// Classes of types that share their methods; `core/src/call/known.rs` has the same bits.
pub(crate) mod class {
    /// User-defined type that does not dereference to another type.
    pub(crate) const PLAIN: u32 = 1;
    /// Numbers, `bool`, `char`, dtypes.
    pub(crate) const SCALAR: u32 = 1 << 1;
    pub(crate) const TEXT: u32 = 1 << 2;
    pub(crate) const TENSOR: u32 = 1 << 3;
    pub(crate) const KEY: u32 = 1 << 4;
    pub(crate) const RANGE: u32 = 1 << 5;
    pub(crate) const LIST: u32 = 1 << 6;
    /// Maps ordered by key.
    pub(crate) const MAP: u32 = 1 << 7;
    /// Options and results.
    pub(crate) const OPTION: u32 = 1 << 8;
    pub(crate) const TUPLE: u32 = 1 << 9;
    /// Maps and sets whose order may differ between equal values.
    pub(crate) const HASH: u32 = 1 << 10;
    /// Iterators, a class that only the macro uses.
    pub(crate) const ITER: u32 = 1 << 11;
    /// All types that are not user-defined.
    pub(crate) const KNOWN: u32 = !PLAIN;
    /// Types that `for` iterates over in the same order for equal values.
    pub(crate) const ORDERED: u32 = RANGE | LIST | MAP | OPTION;
}
use class::*;

/// Result of a method.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gives {
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
    Opt(&'static Gives),
    List(&'static Gives),
    Iter(&'static Gives),
    Pair(&'static Gives, &'static Gives),
    /// Key or value of a map.
    Part,
    /// Value of an inferred type.
    Inferred,
}

/// Use of the arguments by a method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Takes {
    /// Reads them, so their types have to be known.
    Values,
    /// Moves them.
    Moves,
    /// Iterates over them.
    Iterates,
    /// Calls closures with one element.
    Each,
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
pub(crate) enum Does {
    /// Computes a result, and may modify its receiver. Values of the classes in the row do not
    /// share their contents, so nothing else sees the change.
    Computes,
    /// Compares, adds or formats elements of its receiver, so their types have to be known.
    UsesElements,
    /// Waits for the elements of a tensor.
    Reads,
}

/// Methods that differ only in their names.
pub(crate) struct Row {
    /// Classes of types that have these methods.
    pub(crate) of: u32,
    pub(crate) names: &'static [&'static str],
    pub(crate) gives: Gives,
    pub(crate) takes: Takes,
    pub(crate) does: Does,
}

const fn row(of: u32, names: &'static [&'static str], gives: Gives, takes: Takes) -> Row {
    Row {
        of,
        names,
        gives,
        takes,
        does: Does::Computes,
    }
}

const fn using(of: u32, names: &'static [&'static str], gives: Gives, takes: Takes) -> Row {
    Row {
        of,
        names,
        gives,
        takes,
        does: Does::UsesElements,
    }
}

const ELEM: Gives = Gives::Elem;
const SAME: Gives = Gives::Same;
const NUMBER: Gives = Gives::Scalar;
const STRING: Gives = Gives::Text;
const PART: Gives = Gives::Part;
const PAIR: Gives = Gives::Pair(&NUMBER, &NUMBER);
const OPT: Gives = Gives::Opt(&ELEM);
const OPT_NUMBER: Gives = Gives::Opt(&NUMBER);
const NEXT: Gives = Gives::Iter(&ELEM);

const GOES: u32 = ITER | RANGE;
const MAPS: u32 = MAP | HASH;

/// All known methods.
#[rustfmt::skip]
pub(crate) const METHODS: &[Row] = {
    use Takes::{Each, Fold, Iterates, Moves, Thunk, Two, Values};
    &[
        // Methods of every type.
        row(KNOWN, &["clone", "to_owned", "borrow", "as_ref", "as_mut", "by_ref"], SAME, Values),
        row(KNOWN, &["eq", "ne"], NUMBER, Values),
        // Numbers.
        row(SCALAR, &[
            "abs", "abs_diff", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clamp", "copysign",
            "cos", "cosh", "count_ones", "count_zeros", "div_ceil", "div_euclid", "exp", "exp2", "exp_m1", "floor", "fract", "hypot",
            "ilog", "ilog10", "ilog2", "is_alphabetic", "is_alphanumeric", "is_ascii", "is_finite", "is_infinite", "is_lowercase",
            "is_multiple_of", "is_nan", "is_negative", "is_normal", "is_numeric", "is_positive", "is_power_of_two",
            "is_sign_negative", "is_sign_positive", "is_subnormal", "is_uppercase", "is_whitespace", "isqrt", "leading_zeros", "ln",
            "ln_1p", "log", "log10", "log2", "max", "midpoint", "min", "mul_add", "next_down", "next_multiple_of",
            "next_power_of_two", "next_up", "pow", "powf", "powi", "recip", "rem_euclid", "reverse", "rotate_left", "rotate_right",
            "round", "round_ties_even", "saturating_add", "saturating_mul", "saturating_pow", "saturating_sub", "signum", "sin",
            "sinh", "sqrt", "swap_bytes", "tan", "tanh", "then_with", "to_bits", "to_degrees", "to_radians", "total_cmp",
            "trailing_zeros", "trunc", "unsigned_abs", "wrapping_add", "wrapping_mul", "wrapping_neg", "wrapping_pow",
            "wrapping_rem", "wrapping_sub", "is_eq", "is_ge", "is_gt", "is_le", "is_lt", "is_ne", "is_float", "size_of",
        ], NUMBER, Thunk),
        row(SCALAR | TEXT, &["cmp", "ge", "gt", "le", "lt"], NUMBER, Values),
        row(SCALAR, &[
            "checked_add", "checked_div", "checked_ilog2", "checked_isqrt", "checked_mul", "checked_neg",
            "checked_next_multiple_of", "checked_next_power_of_two", "checked_pow", "checked_rem", "checked_shl", "checked_shr",
            "checked_sub", "partial_cmp", "to_digit",
        ], OPT_NUMBER, Values),
        row(SCALAR, &["sin_cos", "overflowing_add", "overflowing_mul", "overflowing_sub"], PAIR, Values),
        row(SCALAR, &["then"], Gives::Opt(&Gives::Result), Thunk),
        row(SCALAR, &["then_some"], Gives::Opt(&Gives::Arg(0)), Moves),
        row(SCALAR, &["to_be_bytes", "to_le_bytes", "to_ne_bytes"], Gives::List(&NUMBER), Values),
        row(SCALAR | TEXT, &["to_string", "to_lowercase", "to_uppercase"], STRING, Values),
        // The target type decides; between types of these classes the conversion is the standard
        // library's.
        row(SCALAR | TEXT | LIST, &["into"], Gives::Inferred, Values),
        row(SCALAR | LIST, &["try_into"], Gives::Opt(&Gives::Inferred), Values),
        // Text.
        row(TEXT, &[
            "as_str", "strip_prefix", "strip_suffix", "trim", "trim_end", "trim_end_matches", "trim_matches", "trim_start",
            "trim_start_matches", "repeat", "replace", "replacen",
        ], STRING, Values),
        row(TEXT, &[
            "contains", "starts_with", "ends_with", "eq_ignore_ascii_case", "is_empty", "len", "is_ascii", "is_char_boundary",
        ], NUMBER, Values),
        row(TEXT, &["find", "rfind"], OPT_NUMBER, Values),
        row(TEXT, &["push", "push_str", "clear", "truncate", "insert"], Gives::Nothing, Values),
        row(TEXT, &["parse"], Gives::Opt(&Gives::Inferred), Values),
        row(TEXT, &["split_once", "rsplit_once"], Gives::Opt(&Gives::Pair(&STRING, &STRING)), Values),
        row(TEXT, &["lines", "split", "split_whitespace", "rsplit", "splitn", "rsplitn", "split_terminator"], Gives::Iter(&STRING), Values),
        row(TEXT, &["chars", "bytes"], Gives::Iter(&NUMBER), Values),
        row(TEXT, &["char_indices"], Gives::Iter(&PAIR), Values),
        row(TEXT, &["as_bytes"], Gives::List(&NUMBER), Values),
        row(TEXT, &["get"], Gives::Opt(&STRING), Values),
        // Ranges.
        row(RANGE, &["start", "end", "len", "is_empty", "contains"], NUMBER, Values),
        // Lists.
        row(LIST, &["len", "is_empty"], NUMBER, Values),
        row(LIST, &["iter", "iter_mut", "into_iter", "drain"], NEXT, Values),
        row(LIST, &["first", "last", "get", "get_mut", "first_mut", "last_mut", "pop", "pop_front", "pop_back", "front", "back"], OPT, Values),
        row(LIST, &["remove", "swap_remove"], ELEM, Values),
        row(LIST, &["split_first", "split_last"], Gives::Opt(&Gives::Pair(&ELEM, &SAME)), Values),
        row(LIST, &["split_at", "split_at_mut"], Gives::Pair(&SAME, &SAME), Values),
        row(LIST, &["windows", "chunks", "chunks_exact", "chunks_mut", "rchunks"], Gives::Iter(&SAME), Values),
        row(LIST, &["split_off", "to_vec", "as_slice", "as_mut_slice", "into_boxed_slice", "into_vec", "each_ref"], SAME, Values),
        row(LIST, &["push", "push_back", "push_front", "insert", "fill"], Gives::Nothing, Moves),
        row(LIST, &["resize"], Gives::Nothing, Moves),
        row(LIST, &["extend", "append"], Gives::Nothing, Iterates),
        row(LIST, &["extend_from_slice", "copy_from_slice", "clone_from_slice"], Gives::Nothing, Values),
        row(LIST, &["clear", "truncate", "swap", "reverse", "rotate_left", "rotate_right"], Gives::Nothing, Values),
        row(LIST, &["retain", "sort_by_key", "sort_unstable_by_key", "sort_by_cached_key"], Gives::Nothing, Each),
        row(LIST, &["sort_by", "sort_unstable_by", "dedup_by"], Gives::Nothing, Two),
        row(LIST, &["map"], Gives::List(&Gives::Result), Each),
        row(LIST, &["split"], Gives::Iter(&SAME), Each),
        row(LIST, &["chunk_by"], Gives::Iter(&SAME), Two),
        row(LIST, &["is_sorted_by"], NUMBER, Two),
        using(LIST, &["sort", "sort_unstable", "dedup"], Gives::Nothing, Values),
        using(LIST, &["contains", "starts_with", "ends_with", "is_sorted"], NUMBER, Values),
        using(LIST, &["binary_search"], OPT_NUMBER, Values),
        using(LIST, &["concat"], ELEM, Values),
        using(LIST, &["join"], Gives::Inferred, Values),
        // Options and results.
        row(OPTION, &["is_some", "is_none", "is_ok", "is_err"], NUMBER, Values),
        row(OPTION, &["is_some_and", "is_none_or", "is_ok_and"], NUMBER, Each),
        row(OPTION, &["unwrap", "unwrap_or_else"], ELEM, Thunk),
        row(OPTION, &["expect", "unwrap_or"], ELEM, Moves),
        using(OPTION, &["unwrap_or_default"], ELEM, Values),
        row(OPTION, &["as_deref", "as_deref_mut", "copied", "cloned", "take", "or_else", "ok", "flatten", "transpose"], SAME, Thunk),
        row(OPTION, &["or", "xor", "replace", "insert", "get_or_insert", "ok_or"], SAME, Moves),
        row(OPTION, &["ok_or_else", "get_or_insert_with", "map_err"], SAME, Thunk),
        row(OPTION, &["iter", "into_iter"], NEXT, Values),
        row(OPTION, &["map"], Gives::Opt(&Gives::Result), Each),
        row(OPTION, &["and_then"], Gives::Opt(&Gives::InResult), Each),
        row(OPTION, &["filter", "inspect"], SAME, Each),
        row(OPTION, &["map_or"], Gives::Result, Each),
        row(OPTION, &["map_or_else"], Gives::Result, Each),
        row(OPTION, &["zip"], Gives::Opt(&Gives::Pair(&ELEM, &Gives::InArg)), Moves),
        row(OPTION, &["and"], Gives::Arg(0), Moves),
        // Maps.
        row(MAPS, &["len", "is_empty"], NUMBER, Values),
        using(MAPS, &["contains_key", "contains"], NUMBER, Values),
        using(MAPS, &["get", "get_mut", "insert", "remove"], Gives::Opt(&PART), Values),
        row(MAP, &["iter", "into_iter"], Gives::Iter(&Gives::Pair(&PART, &PART)), Values),
        row(MAP, &["keys", "values", "into_keys", "into_values", "values_mut", "range"], Gives::Iter(&PART), Values),
        row(MAP, &["first_key_value", "last_key_value"], Gives::Opt(&Gives::Pair(&PART, &PART)), Values),
        // Iterators.
        row(GOES, &["rev", "skip", "take", "step_by", "cycle", "copied", "cloned", "fuse", "peekable", "into_iter", "iter"], NEXT, Values),
        row(GOES, &["filter", "skip_while", "take_while", "inspect"], NEXT, Each),
        row(GOES, &["map"], Gives::Iter(&Gives::Result), Each),
        row(GOES, &["filter_map", "flat_map", "map_while"], Gives::Iter(&Gives::InResult), Each),
        row(GOES, &["flatten"], Gives::Iter(&Gives::InElem), Values),
        row(GOES, &["enumerate"], Gives::Iter(&Gives::Pair(&NUMBER, &ELEM)), Values),
        row(GOES, &["zip"], Gives::Iter(&Gives::Pair(&ELEM, &Gives::InArg)), Iterates),
        row(GOES, &["chain"], NEXT, Iterates),
        row(GOES, &["scan"], Gives::Iter(&Gives::InResult), Fold),
        row(GOES, &["fold", "rfold"], Gives::Arg(0), Fold),
        row(GOES, &["try_fold"], Gives::Result, Fold),
        row(GOES, &["for_each"], Gives::Nothing, Each),
        row(GOES, &["try_for_each"], Gives::Result, Each),
        row(GOES, &["all", "any"], NUMBER, Each),
        row(GOES, &["position", "rposition"], OPT_NUMBER, Each),
        row(GOES, &["find", "rfind"], OPT, Each),
        row(GOES, &["find_map"], Gives::Opt(&Gives::InResult), Each),
        row(GOES, &["max_by", "min_by", "reduce"], OPT, Two),
        row(GOES, &["max_by_key", "min_by_key"], OPT, Each),
        row(GOES, &["partition"], Gives::Pair(&Gives::List(&ELEM), &Gives::List(&ELEM)), Each),
        row(GOES, &["next", "next_back", "nth", "nth_back", "last", "peek"], OPT, Values),
        row(GOES, &["count", "len"], NUMBER, Values),
        using(GOES, &["max", "min"], OPT, Values),
        using(GOES, &["sum", "product"], ELEM, Values),
        using(GOES, &["is_sorted"], NUMBER, Values),
        using(GOES, &["eq", "ne", "lt", "le", "gt", "ge", "cmp"], NUMBER, Values),
        row(GOES, &["collect"], Gives::List(&ELEM), Values),
        row(GOES, &["unzip"], Gives::Pair(&Gives::List(&Gives::Inferred), &Gives::List(&Gives::Inferred)), Values),
        // Random keys.
        row(KEY, &["bits", "uniform", "normal", "bernoulli", "permutation"], Gives::Tensor, Values),
        row(KEY, &["fold_in"], Gives::Key, Values),
        row(KEY, &["split"], Gives::Pair(&Gives::Key, &Gives::Key), Values),
        row(KEY, &["split_n", "split_many"], Gives::List(&Gives::Key), Values),
        // Tensors, beside their ops.
        row(TENSOR, &["rank", "numel", "dtype", "aval", "dim"], NUMBER, Values),
        row(TENSOR, &["shape"], Gives::List(&NUMBER), Values),
        row(TENSOR, &["add", "sub", "mul", "div", "neg"], Gives::Tensor, Values),
        Row { of: TENSOR, names: &["is_realised", "item", "try_item", "to_vec", "try_to_vec", "to_ndarray"], gives: Gives::Inferred, takes: Values, does: Does::Reads },
    ]
};

/// Known functions, by the last two segments of their paths, with what they return.
#[rustfmt::skip]
pub(crate) const FUNCTIONS: &[(&[&str], Gives, Takes)] = {
    use Takes::{Moves, Thunk, Values};
    &[
        (&["Box::new", "array::from_ref", "slice::from_ref", "hint::black_box"], Gives::Arg(0), Moves),
        (&["Some", "Ok", "Option::Some", "Result::Ok", "iter::repeat", "iter::repeat_n", "iter::once"], Gives::Opt(&Gives::Arg(0)), Moves),
        (&["Err", "Result::Err"], Gives::Opt(&Gives::Inferred), Moves),
        (&["drop", "mem::drop", "mem::swap"], Gives::Nothing, Moves),
        (&["mem::replace", "mem::take", "convert::identity"], Gives::Arg(0), Moves),
        (&["Vec::new", "Vec::with_capacity", "iter::empty", "VecDeque::new"], Gives::List(&Gives::Inferred), Values),
        (&["String::new", "String::from", "String::with_capacity", "str::from_utf8"], Gives::Text, Values),
        (&["Vec::from", "Vec::from_iter"], Gives::List(&Gives::InArg), Values),
        (&["array::from_fn", "iter::from_fn", "iter::repeat_with", "iter::successors"], Gives::List(&Gives::Result), Thunk),
        (&["iter::zip"], Gives::List(&Gives::Inferred), Values),
        (&["cmp::max", "cmp::min"], Gives::Arg(0), Values),
        (&["mem::size_of", "size_of"], Gives::Scalar, Values),
        (&["Duration::from_secs", "Duration::from_millis", "char::from_digit", "char::from_u32"], Gives::Scalar, Values),
        (&["Key::new", "Key::from_words"], Gives::Key, Values),
    ]
};

/// Associated functions of `Tensor` that are not ops.
pub(crate) const OF_TENSORS: &[&str] = &[
    "from",
    "from_ndarray",
    "from_vec",
    "scalar",
    "try_from_vec",
    "clone",
    "as_ref",
];

/// Associated functions of number types that are not methods.
pub(crate) const OF_NUMBERS: &[&str] = &[
    "add",
    "default",
    "div",
    "from",
    "from_be_bytes",
    "from_bits",
    "from_digit",
    "from_le_bytes",
    "from_ne_bytes",
    "from_str",
    "from_str_radix",
    "from_u32",
    "mul",
    "neg",
    "not",
    "rem",
    "sub",
    "try_from",
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

/// Transforms of closures, which have the same names as the companions.
pub(crate) const TRANSFORMS: &[&str] = &[
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jvp",
    "value_and_grad",
    "vjp",
];

/// Returns the rows of the methods called `name`.
pub(crate) fn methods(name: &str) -> impl Iterator<Item = &'static Row> {
    METHODS.iter().filter(move |row| row.names.contains(&name))
}

/// Returns whether `Tensor` has a method or an associated function of this name that is an op.
pub(crate) fn is_op(name: &str, assoc: Option<bool>) -> bool {
    let mut ops = Op::ALL.iter().flat_map(|op| op.def().methods());
    ops.any(|m| m.name == name && assoc.is_none_or(|assoc| m.assoc == assoc))
}

/// Returns whether tensors have a method of this name that does not return a tensor.
pub(crate) fn reads_tensor(name: &str) -> bool {
    methods(name).any(|row| row.of == TENSOR && !matches!(row.gives, Gives::Tensor))
}

/// Returns whether numbers, strings, lists, options or maps have a method of this name.
///
/// Ops of tensors, and methods common to all types, do not count.
pub(crate) fn is_of_values(name: &str) -> bool {
    let of = SCALAR | TEXT | LIST | OPTION | MAPS;
    !is_op(name, Some(false)) && methods(name).any(|row| row.of & of != 0 && row.of != KNOWN)
}
