//! More products of matrices, and linear algebra.

use gradloom::{NewAxis, Tensor};

crate::goldens! {
    e_mm(a, b) -> Tensor { Tensor::einsum("ij,jk->ik", &[a, b]) }
    e_bmm(a, b) -> Tensor { Tensor::einsum("bij,bjk->bik", &[a, b]) }
    e_t(a) -> Tensor { Tensor::einsum("ij->ji", &[a]) }
    e_trace(a) -> Tensor { Tensor::einsum("ii", &[a]) }
    e_partial_trace(a) -> Tensor { Tensor::einsum("iij->j", &[a]) }
    e_frob(a, b) -> Tensor { Tensor::einsum("ij,ij->", &[a, b]) }
    e_outer(a, b) -> Tensor { Tensor::einsum("i,j->ij", &[a, b]) }
    e_dot_implicit(a, b) -> Tensor { Tensor::einsum("i,i", &[a, b]) }
    e_implicit_order(a, b) -> Tensor { Tensor::einsum("ba,cb", &[a, b]) }
    e_ellipsis(a, b) -> Tensor { Tensor::einsum("...ij,...jk->...ik", &[a, b]) }
    e_ellipsis_trailing(a, b) -> Tensor { Tensor::einsum("i...,i...->...", &[a, b]) }
    e_three(a, b, c) -> Tensor { Tensor::einsum("ij,jk,kl->il", &[a, b, c]) }
    e_attention(a, b) -> Tensor { Tensor::einsum("bhqd,bhkd->bhqk", &[a, b]) }
    e_scalar(a, b) -> Tensor { Tensor::einsum(",ij->ij", &[a, b]) }
    e_mv(a, b) -> Tensor { Tensor::einsum("ij,j->i", &[a, b]) }
    e_sum_all(a, b) -> Tensor { Tensor::einsum("ij,k->", &[a, b]) }
    e_bilinear(a, b, c) -> Tensor { Tensor::einsum("i,ij,j->", &[a, b, c]) }
    e_batch_diag(a) -> Tensor { Tensor::einsum("bii->bi", &[a]) }
    e_rowdot(a, b) -> Tensor { Tensor::einsum("ij,ji->i", &[a, b]) }
    e_hard(a, b, c) -> Tensor { Tensor::einsum("ijk,ilm,njm->nkl", &[a, b, c]) }
    e_repeated_two(a, b) -> Tensor { Tensor::einsum("iji,jj->ij", &[a, b]) }
    e_khatri(a, b) -> Tensor { Tensor::einsum("ij,ik->ijk", &[a, b]) }
    l_vv(a, b) -> Tensor { a.matmul(b) }
    l_vec_batched(x, a) -> Tensor { x.matmul(a) }
    l_tensordot(a, b) -> Tensor { a.dot_general(b, (&[1, 2], &[0, 1]), (&[], &[])) }
    l_outer_inner(a, b) -> Tensor { a.outer(b).matmul(b) + a.matmul(a) }
    l_int_matmul(a, b) -> Tensor { a.matmul(b) }
    l_zero_inner_bmm(a, b) -> Tensor { a.matmul(b) }
    l_vec_zero(a, b) -> Tensor { a.matmul(b) }
    l_solve(a, b) -> Tensor { a.solve(b) }
    l_solve_vec_batched(a, b) -> Tensor { a.solve(b.unsqueeze(-1)).squeeze(-1) }
    l_inv_det(a) -> Tensor { a.inv() * a.det() }
    l_det_2x2_f32(a) -> Tensor { a.det() }
    l_det_singular(a) -> Tensor { a.det() }
    l_slogdet(a) -> Tensor { a.slogdet().1 }
    l_cholesky(a) -> Tensor { ((a + a.t()) / 2.0).cholesky() }
    l_cholesky_logdet(a) -> Tensor { 2.0 * ((a + a.t()) / 2.0).cholesky().diagonal(0).log().sum(..) }
    l_tri_lower(a, b) -> Tensor { a.solve_lower(b) }
    l_tri_upper_trans(a, b) -> Tensor { a.t().solve_lower(b) }
    l_tri_unit(a, b) -> Tensor { a.solve_unit_lower(b) }
    l_tri_right(a, b) -> Tensor { a.t().solve_upper(b.t()).t() }
    l_cho_solve(a, b) -> Tensor {
        let l = ((a + a.t()) / 2.0).cholesky();
        l.t().solve_upper(l.solve_lower(b))
    }
    l_qr_r(a) -> Tensor { a.qr().1.abs() }
    l_eigvalsh(a) -> Tensor { ((a + a.t()) / 2.0).eigh().0 }
    l_eigh_reconstruct(a) -> Tensor {
        let (w, v) = ((a + a.t()) / 2.0).eigh();
        (&v * w.exp()).matmul(v.t())
    }
    l_svdvals(a) -> Tensor { a.svd().1 }
    l_nuclear_norm(a) -> Tensor { a.svd().1.sum(..) }
    l_pinv(a) -> Tensor {
        let (u, s, vt) = a.svd();
        (vt.t() / s).matmul(u.t())
    }
    l_lstsq(a, b) -> Tensor {
        let (q, r) = a.qr();
        r.solve_upper(q.t().matmul(b))
    }
    l_matrix_power(a) -> Tensor {
        let a2 = a.matmul(a);
        a2.matmul(&a2).matmul(a)
    }
    l_matrix_power_neg(a) -> Tensor {
        let i = a.inv();
        i.matmul(&i)
    }
    l_expm(a) -> Tensor {
        let mut term = Tensor::eye(2, a.dtype());
        let mut sum = term.clone();
        for k in 1..20 {
            term = term.matmul(a) / k as f64;
            sum += &term;
        }
        sum
    }
    l_multi_dot(a, b, c) -> Tensor { a.matmul(b).matmul(c) }
    l_vecdot_cross(a, b) -> Tensor { (a * b).sum(-1) + a.cross(b, -1).sum(-1) }
    l_trace_offset(a) -> Tensor { a.diagonal(1).sum(-1) }
    l_mahalanobis(x, a) -> Tensor { x.matmul(a.solve(x)) }
    l_batched_cross_batch(a, b) -> Tensor { a.i((.., NewAxis)).matmul(b.unsqueeze(0)) }
}
