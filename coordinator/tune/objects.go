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

// Parts are the length of the parts of an object, and how many a rank has under way.
type Parts struct {
	Bytes       pfs.Bytes
	Connections int
}

// On is a storage with these parts.
func (p Parts) On(sys *pfs.System) *pfs.System {
	if p == (Parts{}) {
		return sys
	}
	return sys.WithParts(p.Bytes, p.Connections)
}

// The lengths of parts and the numbers of connections that a search tries, and the memory that
// parts of a rank take at most where no limit is given (docs/OBJECTS.md).
var (
	partSizes   = []pfs.Bytes{5 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20}
	connections = []int{1, 2, 3, 4, 6, 8, 12, 16}
)

const (
	rankParts = 60 << 20 // some 4 MiB of the client come on top
	openParts = 2        // of a rank that are not full yet, as objectfs has them
)

// partMemory is what the parts of a rank take.
func partMemory(part pfs.Bytes, connections int) int64 {
	return int64(part) * int64(connections+openParts)
}

// partsOf varies the parts of objects, within what the storage takes and the memory of a rank.
func (s *search) partsOf(o Option) (list []Option) {
	is := &s.sys.Connections
	for _, part := range partSizes {
		for _, n := range connections {
			if part < is.Least || is.Most > 0 && part > is.Most || s.c.Limit == 0 && partMemory(part, n) > rankParts {
				continue
			}
			x := o
			if x.Parts = (Parts{part, n}); x.Parts == (Parts{s.sys.RPC, is.Count}) {
				x.Parts = Parts{}
			}
			list = append(list, x)
		}
	}
	return list
}

// oneWriter refuses files of several ranks: an object has one writer.
func oneWriter(sys *pfs.System, s *plan.Settings) error {
	return &plan.SettingError{Setting: "layout", Value: string(s.Layout), Reason: sys.Name + " keeps objects, which have one writer each",
		Remedy: "leave the layout out"}
}
