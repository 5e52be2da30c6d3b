// Package exec carries out what package plan has decided: it gathers the bytes
// of other ranks and writes the files of a checkpoint.
//
// Every process of the job makes the same plan and executes the part of its
// rank:
//
//	p, err := plan.New(sources, settings)
//	stats, err := exec.Run(ctx, p, rank, exec.Options{
//		Own:   func(key int) []byte { return regions[key] }, // this rank's memory
//		Pull:  peers,                                        // the others' memory
//		Files: open,                                         // of type func(file int) (io.WriterAt, error)
//		Turn:  turn,                                         // only without P1
//	})
//
// # Rounds
//
// A writer works in rounds. It pulls the bytes of other ranks into a collective
// buffer, then writes buffer and own bytes to the file. How much of that happens
// at the same time is a matter of the switches of the plan (Larrosa Jiménez,
// thesis, Málaga 2015, section 2.3):
//
//	P1  off: Run asks Turn before the first pull, and tells it after the last write
//	P2  on: a goroutine for each rank from which the round has bytes
//	    off: one pull after the other
//	P3  on: round k+1 is gathered while round k is written. The two buffers are
//	    exchanged when both are done.
//	    off: one round after the other
//
// An individual writer gathers nothing and waits for no round: up to Options.Depth
// operations are under way.
//
// # Memory
//
// A writer has one buffer of Settings.Buffer bytes, or two with P3; smaller ones
// where the whole checkpoint is smaller, and none as long as nothing has to go
// through them. They are page-aligned, are used for all rounds, and with
// Options.Buffers for further calls.
//
// Own bytes are written from where they are. With direct I/O this takes memory
// that is page-aligned; other memory is copied first. The copy needs no memory of
// its own: a round moves at most Settings.Buffer bytes, own ones included, so
// what the gathers leave of the buffer is always enough. An individual writer has
// a buffer for each operation under way that needs one.
//
// # Promises
//
//   - Without an error every byte of the writer's part of the plan has been
//     written once, at its place, and nothing else has been touched: neither
//     holes nor the header.
//   - One operation writes what lies side by side in the file and in memory, and
//     no operation writes more than Settings.Buffer bytes. Writes of a writer
//     follow each other, in the order of the plan; those of an individual one
//     begin in this order.
//   - The first error stops everything. Run waits for its goroutines before it
//     returns; nothing is written, and no memory of the caller touched,
//     afterwards. The contents of the files are then undefined.
//   - A cancelled context ends a Run as soon as the write in progress, if any, and
//     the pulls return. Nothing new is begun.
//   - An operation that fails returns an *Error: operation, rank, file and offset.
//     The errno of the kernel and the errors of Puller, Turn and context answer to
//     errors.Is.
//
// Files are opened with Options.Files and written to; that is all. The caller
// writes headers, syncs, closes and renames: it knows what else goes into a file
// before it has to be durable, and one Sync at the end serves all of it. A write
// to a page cache may succeed although the disk is full or broken; so only the
// caller's Sync tells whether the checkpoint is safe.
package exec
