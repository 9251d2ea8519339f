use super::Compare;

pub(super) static OP: Compare = Compare {
    name: "gt",
    fns: compare_fns!(|x, y| x > y),
};
