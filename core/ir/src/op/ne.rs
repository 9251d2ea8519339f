use super::Compare;

pub(super) static OP: Compare = Compare {
    name: "ne",
    fns: compare_fns!(|x, y| x != y),
};
