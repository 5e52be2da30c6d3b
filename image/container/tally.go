package container

import "ckpt/zones"

// A Tally says what a container file holds of each of its regions.
type Tally struct {
	Regions []RegionTally
	// Overhead is the bytes of the file that are of no region: its header, index and
	// trailer.
	Overhead int64
	// References is how many files of earlier checkpoints hold extents of it.
	References int
}

// A RegionTally counts the bytes of a region by where they are: as zeros, which are
// stored nowhere, in another file, or in this one. The three add up to the region.
type RegionTally struct {
	Name       string
	Zone       zones.Zone
	Rank       int // -1 where it belongs to no single rank
	Zeros      int64
	Referenced int64
	Unpacked   int64 // in this file, before they were packed
	Packed     int64 // what they take there
}

// Tally counts the bytes of a file. It reads the index only.
func (p Place) Tally(f File) (*Tally, error) {
	c, err := p.open(f)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	t := &Tally{Overhead: c.size, References: len(c.index.files), Regions: make([]RegionTally, len(c.index.regions))}
	for i, r := range c.index.regions {
		t.Regions[i] = RegionTally{Name: r.name, Zone: r.zone, Rank: int(r.rank)}
	}
	for _, e := range c.index.extents {
		r := &t.Regions[e.region]
		switch {
		case e.codec == codecZero:
			r.Zeros += e.rawLen
		case e.fileRef != 0:
			r.Referenced += e.rawLen
		default:
			r.Unpacked += e.rawLen
		}
	}
	for _, e := range c.index.ownOnce() { // what several regions share takes its space once
		n := zones.PageRound(e.storedLen)
		t.Regions[e.region].Packed += n
		t.Overhead -= n
	}
	for _, h := range c.index.holes(c.trailer.indexOffset) {
		t.Overhead -= h.n
	}
	return t, nil
}
