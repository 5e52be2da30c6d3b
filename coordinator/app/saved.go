package app

// ProgressRegion is the region of a checkpoint at application level that holds the
// iteration counter and the residuals. It is the same on all ranks.
const ProgressRegion = "progress"

// Progress returns what ProgressRegion holds, a part of the region runtime. The rest of
// that one is constant.
func (a *App) Progress() []byte {
	return a.runtime.mem[:runtimeHeader+8*len(a.runtime.history)]
}

// Resume completes the memory of a rank after a restart at application level: Init has
// run, and the arrays that were saved have been restored. Progress is what [App.Progress]
// was.
func (a *App) Resume(progress []byte) {
	copy(a.Progress(), progress)
	if k, ok := a.kernel.(recomputer); ok {
		k.recompute(a.Iteration())
	}
}
