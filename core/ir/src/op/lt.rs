use super::Compare;

pub(super) static OP: Compare = Compare {
    name: "lt",
    fns: compare_fns!(|x, y| x < y),
};
