//! Training with custom functions: live objects, plans and memory stay flat.

use crate::contexts::{Counted, Counts};
use gradloom::custom::Call;
use gradloom::prelude::*;
use gradloom::{CustomFunction, Param, custom_call, events, no_grad};
use std::sync::Arc;

/// x w with a context.
struct Product(Counts);

impl CustomFunction for Product {
    type Input = (Tensor, Tensor);
    type Output = Tensor;
    type Saved = (Tensor, Tensor, Counted);

    fn forward(&self, (x, w): &Self::Input, _: &[bool]) -> Result<(Tensor, Self::Saved)> {
        Ok((x.matmul(w), (x.clone(), w.clone(), Counted::new(&self.0))))
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Self::Input> {
        let (x, w, _) = call.saved;
        Ok((ct.matmul(w.transpose()), x.transpose().matmul(ct)))
    }
}

/// Bytes of memory that the process has, on Linux.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}

/// S4.18, S4.37, S4.41: counts and memory are flat after 100 steps. `GRADLOOM_STEPS` sets the number of steps.
#[test]
fn a_training_loop_keeps_nothing() {
    let steps = std::env::var("GRADLOOM_STEPS")
        .ok()
        .and_then(|n| n.parse().ok());
    let steps: usize = steps.unwrap_or(400);
    let counts = Counts::default();
    let f = Arc::new(Product(counts.clone()));
    let key = Key::new(0);
    let [k0, k1, k2] = key.split_n();
    let x = k0.normal([16, 8], DType::F32);
    let target = x.sin().sum_keepdims(1);
    let params = [
        k1.normal([8, 16], DType::F32) * 0.1,
        k2.normal([16, 1], DType::F32) * 0.1,
    ];
    let params = params.map(|w| Param::new(w).unwrap());
    // A history of losses that were read keeps no graph.
    let mut losses = Vec::new();
    let (mut planned, mut memory) = (0, 0);
    for step in 0..steps {
        let h = custom_call(&f, &(x.clone(), params[0].tensor())).tanh();
        let y = custom_call(&f, &(h, params[1].tensor()));
        let loss = (y - &target).square().mean(..);
        params.iter().for_each(Param::zero_grad);
        loss.backward().unwrap();
        for w in &params {
            let step = w.grad().unwrap() * 0.05;
            w.set(no_grad(|| w.tensor() - step)).unwrap();
        }
        if step % 10 == 9 {
            loss.item::<f32>();
            losses.push(loss);
        }
        assert_eq!(counts.made(), 2 * (step + 1));
        assert_eq!(counts.dropped(), counts.made());
        if step == 99 {
            planned = events::counts().planned;
            memory = resident();
        }
    }
    let (first, last) = (
        losses[0].item::<f32>(),
        losses[losses.len() - 1].item::<f32>(),
    );
    assert!(last < 0.5 * first, "{first} {last}");
    // Other tests of this process may plan, so the bound is that of one plan in ten steps.
    let planned = events::counts().planned - planned;
    assert!(planned <= steps as u64 / 10, "{planned} plans");
    let grown = resident().saturating_sub(memory);
    println!("{steps} steps: {planned} plans and {grown} bytes after step 100");
    assert!(grown < 16 << 20, "{grown} bytes");
}
