use super::Test;

test_fns! { |x| x.is_infinite() }

pub(super) static OP: Test = Test {
    name: "is_infinite",
    fns: FNS,
};
