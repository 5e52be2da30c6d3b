package iosched

// file has the requests of a file that are not done and that later ones may overlap.
type file struct {
	requests tree[*Request]
}

// pending is what the controller knows of a request until it is done.
type pending struct {
	span     node[*Request]
	file     *file // nil if the request is not here
	indexed  bool
	done     int64
	blockers int        // earlier requests that must be done before this one
	waiters  []*Request // later ones that must wait for this one
}

// order has r wait for the earlier requests that it overlaps, unless all of them
// read. It says whether there are none, so that the policy may have r now.
func (c *Controller) order(r *Request) bool {
	f := r.pending.file
	c.found = overlapping(f.requests.root, r.Offset, r.End(), c.found[:0])
	for _, earlier := range c.found {
		if r.Op == Read && earlier.Op == Read {
			continue
		}
		earlier.pending.waiters = append(earlier.pending.waiters, r)
		r.pending.blockers++
		// Whatever overlaps the earlier one from now on overlaps this write, and
		// waits for it. So a block that is written often stays cheap.
		if r.Op == Write && r.Offset <= earlier.Offset && earlier.End() <= r.End() {
			f.remove(earlier)
		}
	}
	f.requests.insert(&r.pending.span, spanKey(r), r.End(), r)
	r.pending.indexed = true
	return r.pending.blockers == 0
}

func spanKey(r *Request) key { return key{offset: r.Offset, seq: r.Seq} }

func (f *file) remove(r *Request) {
	if r.pending.indexed {
		f.requests.remove(spanKey(r))
		r.pending.indexed = false
	}
}

// release lets go of a request that is done, and gives the policy those that waited
// for nothing else.
func (c *Controller) release(r *Request) {
	r.pending.file.remove(r)
	r.pending.file = nil
	for i, later := range r.pending.waiters {
		r.pending.waiters[i] = nil
		if later.pending.blockers--; later.pending.blockers == 0 {
			c.held--
			c.policy.Add(c.now, later)
		}
	}
	r.pending.waiters = r.pending.waiters[:0]
}
