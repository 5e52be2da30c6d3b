package service

import "ckpt/dataset"

// A Content is what ckpt stores of a region of a rank: the bytes of its extents that are
// written, and the ratio to which a codec packs them; 0 if no job measured the codec.
type Content struct{ Bytes, Ratio float64 }

// Contents are those of the regions of a rank, by name, in a full checkpoint or in one that
// follows. A simulation needs them one by one; Size adds them up, and corrects the sum.
func (f *Fit) Contents(inst *dataset.Instance, codec string, full bool) map[string]Content {
	app := f.App(inst.Name, inst.Class)
	spec, list := shares(inst), make(map[string]Content)
	for _, item := range regions(inst) {
		r := &Region{Name: item.name}
		if app != nil {
			if known := app.region(item.name); known != nil {
				r = known
			}
		}
		share, of := r.Changed, spec[item.name].changed()
		if full {
			share, of = r.Used, spec[item.name].used()
		}
		c := Content{}
		c.Bytes, _ = share.stored(item.size, of)
		if codec == "none" || codec == "" || r.Packing[codec] != nil {
			c.Ratio, _ = r.ratio(codec, inst.NP, spec[item.name].full(), full)
		}
		list[item.name] = c
	}
	return list
}
