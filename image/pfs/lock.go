package pfs

// lock is that of one file on one target. It reaches from where it was asked for
// to the end of the file, so that one process has it at a time.
type lock struct {
	sim    *Sim
	holder *lane
	start  int64 // of what is locked
	queue  []claim
	moving bool // on its way to the next process
}

// claim is a run that waits for the lock.
type claim struct {
	lane *lane
	run  run
	op   *op
}

// ask pushes a run as soon as its lane has the lock.
func (k *lock) ask(l *lane, r run, o *op) {
	if k.holder == l && r.offset >= k.start && len(k.queue) == 0 && !k.moving {
		o.granted()
		l.push(r, o)
		return
	}
	if n := len(k.queue); k.holder != nil && k.holder != l || n > 0 && k.queue[n-1].lane != l {
		o.client.lockWaits++
	}
	k.queue = append(k.queue, claim{l, r, o})
	k.recall()
}

// recall takes the lock from its holder as soon as the bytes written under it are
// at the server. The call back, and each process that waits, take time.
func (k *lock) recall() {
	if k.moving || len(k.queue) == 0 {
		return
	}
	wait := float64(k.sim.sys.Locks.Grant)
	if h := k.holder; h != nil && h != k.queue[0].lane {
		if h.pushed != h.answered {
			return // idle calls again
		}
		wait += float64(k.sim.sys.Locks.Callback) + float64(len(k.queue))*float64(k.sim.sys.Locks.PerWaiter)
	}
	k.moving = true
	k.sim.schedule(k.sim.now+wait, k, 0)
}

// act grants the lock to the first that waits.
func (k *lock) act(int32) {
	c := k.queue[0]
	k.queue = k.queue[1:]
	if len(k.queue) == 0 {
		k.queue = nil
	}
	k.moving, k.holder, k.start = false, c.lane, c.run.offset
	c.op.granted()
	c.lane.push(c.run, c.op)
	k.recall()
}

// idle is told that all bytes of a lane are at the server.
func (k *lock) idle(l *lane) {
	if l == k.holder {
		k.recall()
	}
}
