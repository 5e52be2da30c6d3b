package coordinator

import (
	"fmt"
	"slices"

	"ckpt/coordinator/app"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/mpi"
	"ckpt/zones"
)

// checkRun resolves a description, and refuses what this machine cannot run.
func checkRun(text job.Spec, opt Options) (*job.Resolved, error) {
	spec, err := text.Resolve()
	if err != nil {
		return nil, err
	}
	if _, err := launch.New(spec.Launcher, spec.NP); err != nil {
		return nil, err
	}
	if opt.Listen == "" { // else other hosts have memory as well
		if err := job.CheckMemory(spec); err != nil {
			return nil, err
		}
		if opt.Room != nil && spec.Program == nil {
			if err := opt.Room(spec.NP); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range opt.Failures {
		if err := f.check(&spec.Spec); err != nil {
			return nil, err
		}
	}
	if spec.Program != nil {
		return spec, nil
	}
	return spec, checkApp(spec)
}

// reserved are the names of the regions that are not arrays of a workload.
var reserved = []string{job.PendingRegion, job.LibraryRegion, "segment"}

// checkApp refuses an application that no rank could set up. It allocates the
// memory of one rank without touching it.
func checkApp(spec *job.Resolved) error {
	inst, err := spec.Instance()
	if err != nil {
		return err
	}
	for _, a := range inst.Arrays {
		if slices.Contains(reserved, a.Name) {
			return &job.UsageError{Text: fmt.Sprintf("workload %s: array %q has a name that ckpt uses itself", inst.Name, a.Name), Fix: "rename the array"}
		}
	}
	mem := mpi.NewMemory()
	defer mem.Close()
	_, err = app.New(inst, 0, func(name string, elem zones.Elem, bytes int64) ([]byte, error) {
		return mem.Alloc(name, zones.Data, elem, bytes)
	})
	if mpi.Shortage(err) {
		return err // the class may be right
	}
	if err != nil {
		return &job.UsageError{Text: err.Error(), Fix: "choose another class or number of ranks, or correct the workload"}
	}
	return nil
}
