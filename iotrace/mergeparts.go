package iotrace

import (
	"fmt"
	"slices"
	"time"
)

// parts adds all but events and tables to the result. The stripings of a file
// are those of the first trace that has some.
func (in *merged) parts(out, t *Trace, striped map[int32]*Trace) error {
	if err := t.validParts(); err != nil {
		return err
	}
	if t.Runtime > 0 {
		end := in.at(int64(t.Runtime))
		if end > MaxTime {
			return fmt.Errorf("run time of %v is out of range", t.Runtime)
		}
		out.Runtime = max(out.Runtime, time.Duration(end))
	}
	for _, c := range t.Counters {
		c.Rank, c.File = in.rank(c.Rank), in.file(c.File)
		for _, at := range c.times() {
			if *at >= 0 {
				*at = min(in.at(*at), MaxTime)
			}
		}
		out.Counters = append(out.Counters, c)
	}
	for _, s := range t.Striping {
		s.File = in.file(s.File)
		if _, ok := striped[s.File]; !ok {
			striped[s.File] = t
		}
		if striped[s.File] == t {
			out.Striping = append(out.Striping, s)
		}
	}
	for _, r := range t.Renames {
		out.Renames = append(out.Renames, Renaming{From: in.file(r.From), To: in.file(r.To), At: min(in.at(r.At), MaxTime)})
	}
	for _, w := range t.Warnings {
		w.Files = slices.Clone(w.Files)
		for i := range w.Files {
			w.Files[i].File = in.file(w.Files[i].File)
		}
		out.Warnings = addWarning(out.Warnings, w)
	}
	for _, p := range t.Properties {
		if !slices.Contains(out.Properties, p) {
			out.Properties = append(out.Properties, p)
		}
	}
	return nil
}

// addWarning adds a warning, to one of the same text if there is one.
func addWarning(all []Warning, w Warning) []Warning {
	i := slices.IndexFunc(all, func(o Warning) bool { return o.Code == w.Code && o.Text == w.Text })
	if i < 0 {
		return append(all, w)
	}
	sum := &all[i]
	sum.Count += w.Count
	sum.Bytes += w.Bytes
	if len(w.Files) == 0 {
		return all
	}
	at := make(map[int32]int)
	for k, f := range sum.Files {
		at[f.File] = k
	}
	for _, f := range w.Files {
		if k, ok := at[f.File]; ok {
			sum.Files[k].Count += f.Count
			sum.Files[k].Bytes += f.Bytes
			continue
		}
		at[f.File] = len(sum.Files)
		sum.Files = append(sum.Files, f)
	}
	return all
}
