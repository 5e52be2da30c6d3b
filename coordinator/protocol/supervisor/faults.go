package supervisor

// faults are decisions made wrong on purpose: only tests set them, to see that
// the simulation tells.
type faults struct {
	keepOrphans   bool // let one group that is forced back go on
	collectMore   bool // give the newest garbage line away too
	startTogether bool // start a group before all that go back with it are ready
	keepStale     bool // go on with checkpoints of a history that is given up
	noFence       bool // take the survivors for what they were at their last checkpoints
	reuseRank     bool // give a new process the incarnation of the one before
}
