package supervisor

// faults are decisions made wrong on purpose: only tests set them, to see that
// the simulation tells.
type faults struct {
	keepOrphans   bool // let one of the groups that are forced back go on
	rollBackAll   bool // send all survivors back
	notNewest     bool // take a failed group back to the checkpoint before its newest
	collectMore   bool // give away all but the newest checkpoints
	startTogether bool // start a group before all that go back with it are ready
	keepStale     bool // go on with checkpoints of a history that is given up
	noFence       bool // take the survivors for what they were at their last checkpoints
}
