use super::Compare;

pub(super) static OP: Compare = Compare {
    name: "eq",
    fns: compare_fns!(|x, y| x == y),
};
