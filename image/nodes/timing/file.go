package timing

import "ckpt/image/pfs"

// flags say how a file is opened.
type flags struct {
	create   bool // it does not exist yet
	readOnly bool
	remove   bool // when it is closed
}

// file is one that all processes have open.
type file interface {
	open(p *process)
	read(p *process, offset, bytes int64)
	write(p *process, offset, bytes int64)
	sync(p *process)
	close(p *process)
	closeBehind(p *process) // begins to close
	closed(p *process)      // waits until it is
}

// stripe is the default of OrangeFS.
const stripe = 64 << 10

// plain is a file that processes reach by MPI I/O, without a cache of their own.
type plain struct {
	cluster *cluster
	flags   flags
	stored  *pfs.File
}

func (c *cluster) plain(f flags) *plain {
	return &plain{cluster: c, flags: f, stored: c.onStorage()}
}

// onStorage makes a file over all servers.
func (c *cluster) onStorage() *pfs.File {
	return c.sim.File(pfs.FileSpec{StripeSize: stripe, StripeCount: c.machine.Storage.Targets.Count})
}

// open has one process ask for the file, and tell the others.
func (f *plain) open(p *process) { p.together(f.cluster.name(f.flags)) }

// name returns the operation of the server of names that opens a file.
func (c *cluster) name(f flags) func(done func()) {
	if f.create {
		return c.sim.Create
	}
	return c.sim.Lookup
}

func (f *plain) read(p *process, offset, bytes int64) {
	f.cluster.stored += bytes
	p.until(func(done func()) { p.client.Read(f.stored, offset, bytes, done) })
}

func (f *plain) write(p *process, offset, bytes int64) {
	f.cluster.stored += bytes
	p.until(func(done func()) { p.client.Write(f.stored, offset, bytes, done) })
}

// sync waits until the bytes of all are on the disks.
func (f *plain) sync(p *process) {
	p.drain()
	p.barrier()
}

// close waits for no disk: the servers have the bytes.
func (f *plain) close(p *process) { p.barrier() }

func (f *plain) closeBehind(p *process) { f.close(p) }
func (f *plain) closed(*process)        {}
