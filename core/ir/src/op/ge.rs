use super::Compare;

pub(super) static OP: Compare = Compare {
    name: "ge",
    fns: compare_fns!(|x, y| x >= y),
};
