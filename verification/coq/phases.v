(* Phases that read disjoint rows cost what the most expensive one costs, without axioms of their own: docs/proofs/phases.md.
   A law is an expectation of tests: functions from 0 to 1, measurable where that must be asked. Releases are a list, the
   last one first; a phase sees its own part of the rows and the releases before it. *)
From Coq Require Import Reals Lra Lia List Arith.
Open Scope R_scope.

Definition law (X : Type) : Type := (X -> R) -> R.

(* What is used of a probability: E phi <= a E psi + c if phi <= a psi + c everywhere. *)
Definition expectation {X : Type} (test : (X -> R) -> Prop) (P : law X) : Prop :=
  forall phi psi a c, test phi -> test psi -> (forall x, phi x <= a * psi x + c) -> P phi <= a * P psi + c.

(* (eps, delta) is a = exp eps, c = delta; a may be any number here. *)
Definition bounded {X : Type} (test : (X -> R) -> Prop) (a c : R) (P Q : law X) : Prop :=
  forall phi, test phi -> P phi <= a * Q phi + c.

Definition trade_off {X : Type} (test : (X -> R) -> Prop) (f : R -> R) (P Q : law X) : Prop :=
  forall phi, test phi -> f (P phi) <= 1 - Q phi.

Definition unit_valued {X : Type} (test : (X -> R) -> Prop) : Prop := forall phi, test phi -> forall x, 0 <= phi x <= 1.

Lemma expectation_of_test : forall X (test : (X -> R) -> Prop) P phi,
  expectation test P -> unit_valued test -> test phi -> 0 <= P phi <= 1.
Proof.
  intros X test P phi P_exp test_unit phi_test.
  assert (twice := P_exp phi phi 2 0 phi_test phi_test).
  assert (one := P_exp phi phi 0 1 phi_test phi_test).
  assert (forall x, 0 <= phi x <= 1) by (intro x; exact (test_unit phi phi_test x)).
  split.
  - enough (P phi <= 2 * P phi + 0) by lra. apply twice. intro x. specialize (H x). lra.
  - enough (P phi <= 0 * P phi + 1) by lra. apply one. intro x. specialize (H x). lra.
Qed.

(* What holds for all events holds for all tests, which are averages of events up to 1 / m. *)
Section Events.
Variable X : Type.

Fixpoint total (f : nat -> R) (m : nat) : R :=
  match m with O => 0 | S k => total f k + f k end.

Definition above (y t : R) : R := if Rle_dec t y then 1 else 0.

Lemma count_is : forall y m, 0 <= y ->
  (INR m <= y + 1 -> total (fun k => above y (INR k)) m = INR m) /\
  (y + 1 < INR m -> y < total (fun k => above y (INR k)) m <= y + 1).
Proof.
  intros y m y_0. induction m as [|m [IH IH']]; cbn [total].
  - simpl. split; lra.
  - rewrite S_INR. destruct (Rle_dec (INR m) y) as [m_y | m_y].
    + assert (last : above y (INR m) = 1) by (unfold above; destruct (Rle_dec (INR m) y); [reflexivity | lra]).
      rewrite last. split; [|lra]. intros _. rewrite IH; lra.
    + assert (last : above y (INR m) = 0) by (unfold above; destruct (Rle_dec (INR m) y); [lra | reflexivity]).
      rewrite last. split; [lra|]. intros _. destruct (Rle_lt_dec (INR m) (y + 1)) as [near | far].
      * rewrite IH; lra.
      * specialize (IH' far). lra.
Qed.

Lemma count_near : forall m t, 0 <= t <= 1 ->
  INR m * t <= total (fun k => above (INR m * t) (INR k)) m <= INR m * t + 1.
Proof.
  intros m t t_unit. assert (m_0 := pos_INR m).
  assert (0 <= INR m * t) by (apply Rmult_le_pos; lra).
  assert (0 <= INR m * (1 - t)) by (apply Rmult_le_pos; lra).
  destruct (count_is (INR m * t) m H) as [few many].
  destruct (Rle_lt_dec (INR m) (INR m * t + 1)) as [near | far].
  - rewrite few; lra.
  - specialize (many far). lra.
Qed.

Variables (event : (X -> Prop) -> Prop) (test : (X -> R) -> Prop).
Definition indicates (S : X -> Prop) (phi : X -> R) : Prop := forall x, (S x /\ phi x = 1) \/ (~ S x /\ phi x = 0).

(* {phi >= t} is an event, and finite averages of tests are tests. *)
Definition closed : Prop :=
  (forall phi m k, test phi -> event (fun x => INR k <= INR m * phi x)) /\
  (forall S phi, event S -> indicates S phi -> test phi) /\
  (forall f m, (forall k, test (f k)) -> test (fun x => / INR (S m) * total (fun k => f k x) (S m))).

Definition averages (P : law X) : Prop :=
  forall f m, (forall k, test (f k)) ->
  P (fun x => / INR (S m) * total (fun k => f k x) (S m)) = / INR (S m) * total (fun k => P (f k)) (S m).

Theorem events_decide : forall a c P Q, closed -> unit_valued test -> expectation test P -> expectation test Q ->
  averages P -> averages Q -> 0 <= a ->
  (forall S phi, event S -> indicates S phi -> P phi <= a * Q phi + c) -> bounded test a c P Q.
Proof.
  intros a c P Q (levels & indicators & means) test_unit P_exp Q_exp P_av Q_av a_0 on_events phi phi_test.
  assert (unit := test_unit phi phi_test).
  assert (within : forall m, P phi <= a * (Q phi + / INR (S m)) + c).
  { intro m. assert (size : 0 < INR (S m)) by (apply lt_0_INR; lia).
    set (f := fun (k : nat) x => above (INR (S m) * phi x) (INR k)).
    assert (f_is : forall k, indicates (fun x => INR k <= INR (S m) * phi x) (f k)).
    { intros k x. unfold f, above. destruct (Rle_dec (INR k) (INR (S m) * phi x)); [left | right]; split; auto. }
    assert (f_test : forall k, test (f k)) by (intro k; eapply indicators; [apply (levels phi (S m) k phi_test) | apply f_is]).
    assert (mean_test := means f m f_test).
    set (mean := fun x => / INR (S m) * total (fun k => f k x) (S m)) in *.
    assert (inverse : / INR (S m) * INR (S m) = 1) by (apply Rinv_l; lra).
    assert (0 < / INR (S m)) by (apply Rinv_0_lt_compat; exact size).
    assert (near : forall x, phi x <= mean x <= phi x + / INR (S m)).
    { intro x. destruct (count_near (S m) (phi x) (unit x)) as [low high]. unfold mean, f.
      apply (Rmult_le_compat_l (/ INR (S m))) in low; [|lra]. apply (Rmult_le_compat_l (/ INR (S m))) in high; [|lra].
      rewrite Rmult_plus_distr_l in high. rewrite <- Rmult_assoc, inverse in low, high. lra. }
    assert (P_mean : P phi <= 1 * P mean + 0) by (apply P_exp; auto; intro x; destruct (near x); lra).
    assert (Q_mean : Q mean <= 1 * Q phi + / INR (S m)) by (apply Q_exp; auto; intro x; destruct (near x); lra).
    assert (all : forall n, total (fun k => P (f k)) n <= a * total (fun k => Q (f k)) n + INR n * c).
    { induction n as [|n IH]; [simpl; lra|]. rewrite S_INR. cbn [total].
      assert (one := on_events _ (f n) (levels phi (S m) n phi_test) (f_is n)). lra. }
    specialize (all (S m)).
    apply (Rmult_le_compat_l (/ INR (S m))) in all; [|lra].
    unfold mean in P_mean, Q_mean. rewrite (P_av f m f_test) in P_mean. rewrite (Q_av f m f_test) in Q_mean.
    rewrite Rmult_plus_distr_l in all. rewrite <- (Rmult_assoc (/ INR (S m)) (INR (S m)) c), inverse in all.
    assert (a * (/ INR (S m) * total (fun k => Q (f k)) (S m)) <= a * (Q phi + / INR (S m))) by (apply Rmult_le_compat_l; lra).
    lra. }
  destruct (Rle_lt_dec (P phi) (a * Q phi + c)) as [done | over]; [exact done | exfalso].
  destruct (Rle_lt_dec a 0) as [none | some].
  - assert (a = 0) by lra. subst a. specialize (within O). lra.
  - set (gap := (P phi - a * Q phi - c) / a) in *.
    assert (gap_a : a * gap = P phi - a * Q phi - c) by (unfold gap; field; lra).
    assert (0 < gap) by (unfold gap; apply Rdiv_lt_0_compat; lra).
    destruct (archimed_cor1 gap H) as (n & n_gap & n_0). destruct n as [|m]; [lia|].
    assert (a * / INR (S m) < a * gap) by (apply Rmult_lt_compat_l; lra).
    specialize (within m). lra.
Qed.
End Events.

Section Phases.
Variables (Release Part : Type) (single : (Release -> R) -> Prop) (test : (list Release -> R) -> Prop).
Variable phase : nat -> Part -> list Release -> law Release.

(* Every phase has a law, whatever was released before it, and laws and sections of tests are measurable. *)
Definition kernels : Prop :=
  (forall j part past, expectation single (phase j part past)) /\
  (forall phi past, test phi -> single (fun o => phi (o :: past))) /\
  (forall j part phi, test phi -> test (fun past => phase j part past (fun o => phi (o :: past)))).

(* The law of what the first n phases release together. *)
Fixpoint run (n : nat) (parts : nat -> Part) : law (list Release) :=
  match n with
  | O => fun phi => phi nil
  | S m => fun phi => run m parts (fun past => phase m (parts m) past (fun o => phi (o :: past)))
  end.

Lemma run_is_a_law : kernels -> forall n parts, expectation test (run n parts).
Proof.
  intros (phase_exp & sections & averages) n parts.
  induction n as [|n IH]; intros phi psi a c phi_test psi_test below; cbn [run].
  - apply below.
  - apply IH; try (apply averages; assumption). intro past.
    apply phase_exp; try (apply sections; assumption). intro o. apply below.
Qed.

Lemma same_before : forall i n (parts parts' : nat -> Part), (forall j, j <> i -> parts j = parts' j) ->
  (n <= i)%nat -> forall phi, run n parts phi = run n parts' phi.
Proof.
  intros i n parts parts' same. induction n as [|n IH]; intros n_i phi; cbn [run]; [reflexivity|].
  rewrite (same n) by lia. apply IH. lia.
Qed.

(* Two streams differ in part i alone: what bounds phase i, for every past, bounds all phases together. *)
Theorem one_phase_sees_the_change : forall i n (parts parts' : nat -> Part) a c, kernels -> (i < n)%nat ->
  (forall j, j <> i -> parts j = parts' j) ->
  (forall past, bounded single a c (phase i (parts i) past) (phase i (parts' i) past)) ->
  bounded test a c (run n parts) (run n parts').
Proof.
  intros i n parts parts' a c ok i_n same at_i. assert (laws := run_is_a_law ok).
  destruct ok as (phase_exp & sections & averages).
  induction i_n as [|n i_n IH]; intros phi phi_test; cbn [run].
  - rewrite (same_before i i parts parts' same) by lia.
    apply laws; try (apply averages; assumption). intro past. apply at_i. apply sections. assumption.
  - rewrite (same n) by lia. apply IH. apply averages. assumption.
Qed.

Variable neighbours : Part -> Part -> Prop.

(* One row is replaced or removed in place, so one part changes. *)
Definition differ_in_one (parts parts' : nat -> Part) : Prop :=
  exists i, neighbours (parts i) (parts' i) /\ forall j, j <> i -> parts j = parts' j.

Theorem parallel_composition : forall n a c (a_of c_of : nat -> R),
  kernels -> unit_valued single -> unit_valued test -> 1 <= a -> 0 <= c ->
  (forall j, (j < n)%nat -> a_of j <= a /\ c_of j <= c) ->
  (forall j past part part', (j < n)%nat -> neighbours part part' ->
     bounded single (a_of j) (c_of j) (phase j part past) (phase j part' past)) ->
  forall parts parts', differ_in_one parts parts' -> bounded test a c (run n parts) (run n parts').
Proof.
  intros n a c a_of c_of ok single_unit test_unit a_1 c_0 most each parts parts' (i & i_neighbours & same).
  destruct (le_lt_dec n i) as [n_i | i_n].
  - intros phi phi_test. rewrite (same_before i n parts parts' same n_i).
    assert (0 <= run n parts' phi <= 1) by (eapply expectation_of_test; eauto using run_is_a_law).
    assert (0 <= (a - 1) * run n parts' phi) by (apply Rmult_le_pos; lra). lra.
  - apply (one_phase_sees_the_change i); try assumption. intros past phi phi_test.
    destruct (most i i_n) as (a_i & c_i).
    assert (bound := each i past _ _ i_n i_neighbours phi phi_test).
    assert (0 <= phase i (parts' i) past phi <= 1).
    { eapply expectation_of_test; eauto. apply ok. }
    assert (0 <= (a - a_of i) * phase i (parts' i) past phi) by (apply Rmult_le_pos; lra). lra.
Qed.

(* On [0, 1] the supremum of lines, as every trade-off function is: it is convex and continuous above 0. *)
Definition supremum_of_lines (f : R -> R) : Prop :=
  forall x y, 0 <= x <= 1 -> y < f x ->
  exists slope start, (forall z, 0 <= z <= 1 -> slope * z + start <= f z) /\ y < slope * x + start.

Theorem parallel_composition_of_trade_offs : forall n f (f_of : nat -> R -> R),
  kernels -> unit_valued single -> unit_valued test -> supremum_of_lines f ->
  (forall x, 0 <= x <= 1 -> f x <= 1 - x) ->
  (forall j x, (j < n)%nat -> 0 <= x <= 1 -> f x <= f_of j x) ->
  (forall j past part part', (j < n)%nat -> neighbours part part' ->
     trade_off single (f_of j) (phase j part past) (phase j part' past)) ->
  forall parts parts', differ_in_one parts parts' -> trade_off test f (run n parts) (run n parts').
Proof.
  intros n f f_of ok single_unit test_unit lines blind least each parts parts' (i & i_neighbours & same) phi phi_test.
  assert (in_unit : forall parts, 0 <= run n parts phi <= 1).
  { intro some. eapply expectation_of_test; eauto using run_is_a_law. }
  destruct (le_lt_dec n i) as [n_i | i_n].
  - rewrite (same_before i n parts parts' same n_i). apply blind. apply in_unit.
  - destruct (Rle_lt_dec (f (run n parts phi)) (1 - run n parts' phi)) as [done | above]; [exact done | exfalso].
    destruct (lines _ _ (in_unit parts) above) as (slope & start & under & over).
    enough (run n parts' phi <= - slope * run n parts phi + (1 - start)) by lra.
    apply (one_phase_sees_the_change i); try assumption.
    + intros j j_i. symmetry. exact (same j j_i).
    + intros past psi psi_test.
      assert (0 <= phase i (parts i) past psi <= 1).
      { eapply expectation_of_test; eauto. apply ok. }
      assert (bound := each i past _ _ i_n i_neighbours psi psi_test).
      assert (f_i := least i (phase i (parts i) past psi) i_n H).
      assert (line := under (phase i (parts i) past psi) H). lra.
Qed.
End Phases.

(* Control: where both parts change, as if phases shared the row, two phases cost more than the dearest. Each of them tells
   its bit truly with probability 2/3. So the premises hold of something, and disjoint rows are needed. *)
Definition response (_ : nat) (told : bool) (_ : list bool) : law bool := fun phi => 2/3 * phi told + 1/3 * phi (negb told).
Definition in_unit {X : Type} (phi : X -> R) : Prop := forall x, 0 <= phi x <= 1.

Theorem shared_rows_cost_more :
  kernels bool bool in_unit in_unit response /\
  (forall j past part part', bounded in_unit 2 0 (response j part past) (response j part' past)) /\
  bounded in_unit 2 0 (run bool bool response 2 (fun j => Nat.eqb j 0)) (run bool bool response 2 (fun _ => false)) /\
  ~ bounded in_unit 2 0 (run bool bool response 2 (fun _ => true)) (run bool bool response 2 (fun _ => false)).
Proof.
  assert (ok : kernels bool bool in_unit in_unit response).
  { split; [|split].
    - intros j part past phi psi a c _ _ below. unfold response.
      assert (first := below part). assert (second := below (negb part)). lra.
    - intros phi past phi_test o. apply phi_test.
    - intros j part phi phi_test past. unfold response.
      assert (first := phi_test (part :: past)%list). assert (second := phi_test (negb part :: past)%list). lra. }
  assert (each : forall j past part part', bounded in_unit 2 0 (response j part past) (response j part' past)).
  { intros j past part part' phi phi_test. unfold response.
    assert (first := phi_test true). assert (second := phi_test false).
    destruct part, part'; cbn [negb]; lra. }
  split; [exact ok|]. split; [exact each|]. split.
  - apply (one_phase_sees_the_change bool bool in_unit in_unit response 0); auto.
    intros j j_0. apply Nat.eqb_neq. exact j_0.
  - intro bound.
    specialize (bound (fun released => match released with (true :: true :: nil)%list => 1 | _ => 0 end)).
    assert (4/9 <= 2 * (1/9) + 0); [|lra].
    cbn [run response negb] in bound. unfold response in bound. cbn [negb] in bound.
    enough (in_unit (fun released => match released with (true :: true :: nil)%list => 1 | _ => 0 end)) as is_test.
    { specialize (bound is_test). lra. }
    intros [|[|] [|[|] [|? ?]]]; lra.
Qed.

Print Assumptions events_decide.
Print Assumptions one_phase_sees_the_change.
Print Assumptions parallel_composition.
Print Assumptions parallel_composition_of_trade_offs.
Print Assumptions shared_rows_cost_more.
