use super::Compare;

compare_fns! { |x, y| x == y }

pub(super) static OP: Compare = Compare {
    name: "eq",
    fns: FNS,
};
