use super::Test;

test_fns! { |x| x.is_finite() }

pub(super) static OP: Test = Test {
    name: "is_finite",
    fns: FNS,
};
