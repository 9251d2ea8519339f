use super::Test;

test_fns! { |x| x.is_nan() }

pub(super) static OP: Test = Test {
    name: "is_nan",
    fns: FNS,
};
