//! A program without the prelude of the standard library.

#![no_std]
#![deny(warnings)]

extern crate std;

/// Without the prelude of the standard library.
mod net {
    extern crate alloc;

    use alloc::vec::Vec;
    use gradloom::{Tensor, Tree, traced};

    #[derive(Tree)]
    pub(crate) struct Net {
        pub(crate) layers: Vec<Tensor>,
    }

    #[traced]
    impl Net {
        pub(crate) fn forward(&self, x: &Tensor, n: usize) -> gradloom::Result<Tensor> {
            let mut h = x.clone();
            for layer in &self.layers {
                h *= layer;
            }
            while h.rank() > n {
                h = h.sum(0);
            }
            Ok(h)
        }
    }
}

fn main() {
    let x = gradloom::Tensor::from([1.0f32, 2.0]);
    let net = net::Net {
        layers: std::vec![x.sin()],
    };
    net.forward_grad(&x, 0).unwrap();
}
