use super::Test;

test_fns! { |x| x.is_sign_negative() }

pub(super) static OP: Test = Test {
    name: "signbit",
    fns: FNS,
};
