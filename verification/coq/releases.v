(* Lemmas that the proofs of releases rest on, without axioms of their own: docs/machine_checked.md says what they cover.
   A law is a function of events; the events are any family, and functions are asked to be measurable where they must. *)
From Coq Require Import Reals Lra Lia Arith.
Open Scope R_scope.

Section PostProcessing.
Variables (A B : Type) (eventsA : (A -> Prop) -> Prop) (eventsB : (B -> Prop) -> Prop).

Definition private {X : Type} (events : (X -> Prop) -> Prop) (eps delta : R) (P Q : (X -> Prop) -> R) : Prop :=
  forall S, events S -> P S <= exp eps * Q S + delta.

Definition image (f : A -> B) (P : (A -> Prop) -> R) : (B -> Prop) -> R := fun S => P (fun a => S (f a)).

Definition measurable (f : A -> B) : Prop := forall S, eventsB S -> eventsA (fun a => S (f a)).

Theorem post_processing : forall f eps delta P Q,
  measurable f -> private eventsA eps delta P Q -> private eventsB eps delta (image f P) (image f Q).
Proof. intros f eps delta P Q f_measurable P_Q S S_event. exact (P_Q _ (f_measurable S S_event)). Qed.

(* Whatever computes it: what always equals the rounding of the ideal sum is as private as the ideal sum. *)
Theorem correct_rounding_is_post_processing : forall (rounded computed : A -> B) eps delta P Q,
  (forall U V, (forall a, U a <-> V a) -> P U = P V) ->
  (forall U V, (forall a, U a <-> V a) -> Q U = Q V) ->
  measurable rounded -> (forall a, computed a = rounded a) ->
  private eventsA eps delta P Q -> private eventsB eps delta (image computed P) (image computed Q).
Proof.
  intros rounded computed eps delta P Q P_ext Q_ext rounded_measurable same P_Q S S_event. unfold image.
  rewrite (P_ext (fun a => S (computed a)) (fun a => S (rounded a))).
  - rewrite (Q_ext (fun a => S (computed a)) (fun a => S (rounded a))).
    + exact (P_Q _ (rounded_measurable S S_event)).
    + intro a. rewrite same. tauto.
  - intro a. rewrite same. tauto.
Qed.
End PostProcessing.

Section Toeplitz.
Variable c : nat -> R. (* coefficients: the entry of row i and column j is c (i - j), and 0 above the diagonal *)

Fixpoint sum (f : nat -> R) (n : nat) : R :=
  match n with O => 0 | S m => sum f m + f m end.

Definition entry (i j : nat) : R := if (j <=? i)%nat then c (i - j) else 0.

(* What the change x of one row's value, that of step j, moves in n steps: squared. *)
Definition moved (n j : nat) (x : R) : R := sum (fun i => (entry i j * x) ^ 2) n.

Lemma moved_is : forall n j x, moved n j x = x ^ 2 * sum (fun k => c k ^ 2) (n - j).
Proof.
  unfold moved. induction n as [|n IH]; intros j x; cbn [sum].
  - simpl. ring.
  - rewrite IH. unfold entry. destruct (j <=? n)%nat eqn:E.
    + apply Nat.leb_le in E. replace (S n - j)%nat with (S (n - j)) by lia. cbn [sum]. ring.
    + apply Nat.leb_gt in E. replace (S n - j)%nat with O by lia. replace (n - j)%nat with O by lia. cbn [sum]. ring.
Qed.

Lemma sum_of_squares_grows : forall m n, (m <= n)%nat -> sum (fun k => c k ^ 2) m <= sum (fun k => c k ^ 2) n.
Proof.
  intros m n m_n. induction m_n as [|n m_n IH]; [lra|]. cbn [sum].
  assert (0 <= c n ^ 2) by apply pow2_ge_0. lra.
Qed.

(* The norm of the first column bounds what one row can change, whichever it is. *)
Theorem first_column_bounds : forall n j x bound, Rabs x <= bound ->
  moved n j x <= bound ^ 2 * sum (fun k => c k ^ 2) n.
Proof.
  intros n j x bound x_bound. rewrite moved_is.
  assert (grows := sum_of_squares_grows (n - j) n ltac:(lia)).
  assert (least := sum_of_squares_grows 0 (n - j) ltac:(lia)). cbn [sum] in least.
  assert (x ^ 2 <= bound ^ 2) by (rewrite <- (pow2_abs x); apply pow_incr; split; [apply Rabs_pos | exact x_bound]).
  assert (0 <= x ^ 2) by (apply pow2_ge_0).
  apply Rmult_le_compat; assumption.
Qed.

Theorem first_column_is_attained : forall n x, moved n 0 x = x ^ 2 * sum (fun k => c k ^ 2) n.
Proof. intros n x. rewrite moved_is. rewrite Nat.sub_0_r. reflexivity. Qed.
End Toeplitz.

Print Assumptions post_processing.
Print Assumptions correct_rounding_is_post_processing.
Print Assumptions first_column_bounds.
Print Assumptions first_column_is_attained.
