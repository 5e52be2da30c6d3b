package fileview

// adaptive is the rule that Zickler (thesis, 2015), chapter 3, asks
// for and leaves open; the sums are ours. Times are in bytes, a call costing as
// much as the transfer of breakEven bytes.
func adaptive(s Step) Decision {
	switch {
	case s.Len == 0:
		return Decision{Take: firstTake(s)}
	case s.Size == 0 || s.Hole > s.Buffer-s.Len-s.Size:
		// A block that is cut needs a second call for its rest, which is what
		// joining was to save.
		return Decision{}
	case s.Hole == 0 && s.Data == s.Len:
		return Decision{Take: s.Size} // the blocks touch: one call less, for nothing
	case s.Hole+s.Size > stripeRoom(s):
		return Decision{}
	}
	join := pays(s)
	if s.Access == Write {
		join = rewritePays(s)
	}
	if !join {
		return Decision{}
	}
	return Decision{Take: s.Size}
}

// firstTake cuts a block that is larger than the buffer where a stripe ends, or
// at least a device block, so that its next piece begins with one.
func firstTake(s Step) int64 {
	if s.Size <= s.Buffer {
		return s.Size
	}
	for _, unit := range [...]int64{s.Device.Stripe, s.Device.Block} {
		if unit < 1 {
			continue
		}
		if end := lastMultiple(s.Start, s.Buffer, unit); end > s.Start {
			return end - s.Start
		}
	}
	return s.Buffer
}

// stripeRoom returns the bytes between the end of the access and the end of the
// stripe that its last byte is in.
func stripeRoom(s Step) int64 {
	if s.Device.Stripe < 1 {
		return s.Buffer
	}
	return s.Device.Stripe - 1 - (s.Start+s.Len-1)%s.Device.Stripe
}

// pays tells whether to read the hole and the block takes less time than a call
// for the block.
func pays(s Step) bool {
	d := &s.Device
	join := d.moved(s.Start, s.Len+s.Hole+s.Size) - d.moved(s.Start, s.Len)
	apart := d.moved(s.Start+s.Len+s.Hole, s.Size)
	return float64(join) < float64(apart)+d.breakEven()
}

// rewritePays is pays for a write. To join over a hole means to read the whole
// range and to write it, in two calls. The first hole costs thus as much as two
// blocks save, and the rule has to look ahead: it takes the blocks to come to be
// like the next, as they are in a view of one tuple, for as long as buffer,
// stripe and request last.
func rewritePays(s Step) bool {
	d := &s.Device
	apart := float64(d.moved(s.Start+s.Len+s.Hole, s.Size)) + d.breakEven()
	if s.Data < s.Len { // it is a read-modify-write already
		join := d.moved(s.Start, s.Len+s.Hole+s.Size) - d.moved(s.Start, s.Len)
		return 2*float64(join) < apart
	}
	step := s.Hole + s.Size
	n := min((s.Buffer-s.Len)/step, stripeRoom(s)/step, s.Rest/s.Size)
	join := 2 * (float64(d.moved(s.Start, s.Len+n*step)) + d.breakEven())
	plain := float64(d.moved(s.Start, s.Len)) + d.breakEven()
	return join < plain+float64(n)*apart
}
