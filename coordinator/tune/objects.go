package tune

import (
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// Requests of ckpt beside the uploads, as versitygw counts them (docs/OBJECTS.md, Cost). For each
// object they look whether it is there already, and read its index before the commit; for each
// checkpoint they are for the manifest, the lock, the journal and the list of files.
var (
	besideObject     = pfs.Requests{Puts: 2, Gets: 3}
	besideCheckpoint = pfs.Requests{Puts: 18, Gets: 29}
)

// price counts the requests of a plan whose files have a k-th of their bytes, and prices them.
func (c *Case) price(sys *pfs.System, p *plan.Plan, k float64, f *Forecast) error {
	if !sys.Objects() {
		return nil
	}
	objects := make([]int64, 0, len(p.Files)+1)
	for i := range p.Files {
		objects = append(objects, int64(float64(p.Files[i].Bytes)*k))
	}
	if c.Library > 0 {
		objects = append(objects, c.Library)
	}
	all, beside := besideCheckpoint, besideObject
	if c.OneStream { // another checkpointer
		all, beside = pfs.Requests{}, pfs.Requests{}
	}
	for _, bytes := range objects {
		r, err := sys.Requests(bytes)
		if err != nil {
			return err
		}
		all.Add(r)
		all.Add(beside)
	}
	f.Requests, f.Bill = &all, sys.Bill(all, f.Bytes)
	return nil
}

// oneWriter refuses files of several ranks: an object has one writer.
func oneWriter(sys *pfs.System, s *plan.Settings) error {
	return &plan.SettingError{Setting: "layout", Value: string(s.Layout), Reason: sys.Name + " keeps objects, which have one writer each",
		Remedy: "leave the layout out"}
}
