package iotrace

import (
	"errors"
	"fmt"
)

// validParts returns an error if something beside tables and events is impossible.
func (t *Trace) validParts() error {
	ranks, files := len(t.Ranks), len(t.Files)
	if t.Runtime < 0 || t.Runtime > MaxTime {
		return fmt.Errorf("run time of %d ns is out of range", t.Runtime)
	}
	for i := range t.Counters {
		if err := t.Counters[i].check(ranks, files); err != nil {
			return fmt.Errorf("record %d of counters: %w", i, err)
		}
	}
	for i, s := range t.Striping {
		switch {
		case s.File < 0 || int(s.File) >= files:
			return fmt.Errorf("striping %d: file %d of %d", i, s.File, files)
		case s.Size < None || s.Count < None:
			return fmt.Errorf("striping %d: %d stripes of %d bytes", i, s.Count, s.Size)
		case s.Start < None || s.End < None:
			return fmt.Errorf("striping %d: part from %d to %d", i, s.Start, s.End)
		}
	}
	for i, r := range t.Renames {
		switch {
		case r.From < 0 || int(r.From) >= files || r.To < 0 || int(r.To) >= files:
			return fmt.Errorf("rename %d: file %d to %d of %d", i, r.From, r.To, files)
		case r.At < -MaxTime || r.At > MaxTime:
			return fmt.Errorf("rename %d: time %d ns is out of range", i, r.At)
		}
	}
	for i, w := range t.Warnings {
		if w.Code == "" || w.Count < 0 || w.Bytes < 0 {
			return fmt.Errorf("warning %d: code %q, %d operations, %d bytes", i, w.Code, w.Count, w.Bytes)
		}
		for _, f := range w.Files {
			if f.File < 0 || int(f.File) >= files || f.Count < 0 || f.Bytes < 0 {
				return fmt.Errorf("warning %d: file %d of %d, %d operations, %d bytes", i, f.File, files, f.Count, f.Bytes)
			}
		}
	}
	for i, p := range t.Properties {
		if p.Name == "" {
			return fmt.Errorf("property %d has no name", i)
		}
	}
	return nil
}

// check returns an error if counters are impossible in a trace with so many ranks and
// files. It bounds the times, so that Merge can shift them.
func (c *Counters) check(ranks, files int) error {
	switch {
	case !c.Module.valid():
		return fmt.Errorf("%v is unknown", c.Module)
	case c.Rank < None || int(c.Rank) >= ranks:
		return fmt.Errorf("rank %d of %d", c.Rank, ranks)
	case c.File < None || int(c.File) >= files:
		return fmt.Errorf("file %d of %d", c.File, files)
	}
	for _, t := range c.times() {
		if *t < None || *t > MaxTime {
			return errors.New("a time is out of range")
		}
	}
	return nil
}
