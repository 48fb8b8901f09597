"""What most people should use: an encoding that is learnt privately and the learner behind it, as one estimator."""
