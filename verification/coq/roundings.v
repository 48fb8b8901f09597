(* How roundings add up, without axioms of their own: sum_excess in privol's _rounding.py. *)
From Coq Require Import Reals Lra Lia.
Open Scope R_scope.

(* The error e k of a sum of k vectors whose norms are at most 1: an addition rounds by at most the unit u times its
   result, which is no longer than the k + 1 vectors and the error so far. Nothing of higher order is left, and the mean
   of the k vectors is off by (k - 1) u. *)
Theorem sums_round : forall (u : R) (e : nat -> R), 0 <= u -> e 1%nat <= 0 ->
  (forall k, (1 <= k)%nat -> e (S k) <= e k + u / (1 + u) * (INR (S k) + e k)) ->
  forall k, (1 <= k)%nat -> INR k * u <= 1 -> e k <= INR k * (INR k - 1) * u.
Proof.
  intros u e u_0 start step. induction k as [|k IH]; [lia|]. intros _ few.
  destruct k as [|k].
  - simpl. lra.
  - set (n := S k) in *. rewrite S_INR in *. assert (k_0 : 0 <= INR k) by apply pos_INR.
    assert (n_1 : 1 <= INR n) by (unfold n; rewrite S_INR; lra).
    assert (before : INR n * u <= 1) by lra.
    specialize (IH ltac:(unfold n; lia) before). specialize (step n ltac:(unfold n; lia)). rewrite S_INR in step.
    set (v := u / (1 + u)) in *.
    assert (v_is : v * (1 + u) = u) by (unfold v; field; lra).
    assert (v_0 : 0 <= v) by (unfold v; apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]).
    assert (rounds : e (S n) <= (1 + v) * (INR n * (INR n - 1) * u) + v * (INR n + 1)) by
      (assert (v * e n <= v * (INR n * (INR n - 1) * u)) by (apply Rmult_le_compat_l; lra); lra).
    assert (slack : 0 <= v * ((INR n - 1) * (1 - INR n * u) + 2 * INR n * u + 0 * u)).
    { apply Rmult_le_pos; [exact v_0|].
      assert (0 <= (INR n - 1) * (1 - INR n * u)) by (apply Rmult_le_pos; lra).
      assert (0 <= INR n * u) by (apply Rmult_le_pos; lra). lra. }
    apply Rle_trans with (1 := rounds).
    replace ((INR n + 1) * (INR n + 1 - 1) * u) with ((INR n + 1) * INR n * (v * (1 + u))) by (rewrite v_is; ring).
    replace (INR n * (INR n - 1) * u) with (INR n * (INR n - 1) * (v * (1 + u))) by (rewrite v_is; ring).
    enough (0 <= (INR n + 1) * INR n * (v * (1 + u)) - (1 + v) * (INR n * (INR n - 1) * (v * (1 + u))) - v * (INR n + 1)) by lra.
    replace ((INR n + 1) * INR n * (v * (1 + u)) - (1 + v) * (INR n * (INR n - 1) * (v * (1 + u))) - v * (INR n + 1))
      with (v * ((INR n - 1) + 2 * INR n * u - INR n * (INR n - 1) * (v * (1 + u)))) by ring.
    rewrite v_is. replace (INR n - 1 + 2 * INR n * u - INR n * (INR n - 1) * u)
      with ((INR n - 1) * (1 - INR n * u) + 2 * INR n * u + 0 * u) by ring. exact slack.
Qed.

(* Control: one unit less for each is not enough, as two equal vectors show. *)
Theorem sums_round_is_attained : forall u, 0 < u ->
  exists e : nat -> R, e 1%nat <= 0 /\ (forall k, (1 <= k)%nat -> e (S k) = e k + u * (INR (S k) + e k)) /\ e 2%nat = 2 * (2 - 1) * u.
Proof.
  intros u u_0.
  exists (fix e k := match k with O => 0 | S O => 0 | S m => e m + u * (INR (S m) + e m) end).
  split; [lra|]. split; [|simpl; lra]. intros [|k] k_1; [lia|reflexivity].
Qed.

Print Assumptions sums_round.
Print Assumptions sums_round_is_attained.
