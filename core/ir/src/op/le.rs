use super::Compare;

pub(super) static OP: Compare = Compare {
    name: "le",
    fns: compare_fns!(|x, y| x <= y),
};
