// Package msglog keeps the message log of a rank, the frames of package channel: what the rank
// has received, in which order, and up to which point that is on stable storage. A failed rank
// goes back to its last checkpoint and replays the log from there.
//
// # Use
//
//	log, rec, err := msglog.Open(vfs.OS{}, dir, msglog.ID{Job: "bt.S.4", Rank: 2, Digest: digest}, msglog.Options{})
//	lsn, err := log.Append(channel.Frame{Kind: channel.Received, Peer: 1, Message: message})
//	err = log.Wait(ctx, lsn)      // before the application sees the message
//	…
//	err = log.Commit(ctx)         // all that has been appended
//	removed, freed, err := log.Truncate(lsn)  // no checkpoint needs a frame before it
//
//	r, err := log.NewReader(lsn)  // or msglog.OpenReader, without a writer
//	for f, err := r.Next(); err == nil; f, err = r.Next() { … }
//
// Any number of goroutines may append and wait. Commits are group commits (DeWitt et al.,
// Implementation Techniques for Main Memory Database Systems, SIGMOD 1984): the first to wait
// writes and syncs everything that has been appended so far, and what is appended meanwhile goes
// with the next one. No timer is involved; the slower the disk, the larger the groups.
//
// A pessimistic log waits before it delivers. An optimistic one only appends and lets somebody
// Commit now and then.
//
// # Promises
//
//   - When Wait or Commit has returned nil, the frames survive a loss of power,
//     in their order and without a gap between them.
//   - After a crash the log ends with a whole frame. All behind it is a
//     torn tail, cut when the log is opened and reported. Frames whose commit
//     was under way or had failed may be there, but only as a prefix of what was
//     appended.
//   - A frame that was durable is never cut. If one of them cannot be read, that
//     is an error that names file, offset and reason; see below for how the two
//     are told apart, and for what cannot be.
//   - A failed commit, because the disk is full or for another reason, makes
//     nothing of its frames durable, nor of those appended since; Wait reports
//     them as lost for ever. The log then refuses everything with the same
//     error, but for Truncate, which may make room, until Reopen. After a failed
//     fsync the content of the disk is unknown, and the next one succeeds (Rebello et
//     al., Can Applications Recover from fsync Failures?, USENIX ATC 2020), so that
//     the log never goes on in the same file: see below.
//   - A log has one writer at a time, seen to by a lock that dies with it.
//   - No length is believed before it is checked. Reading takes memory for one
//     frame, never more than its file is long.
//
// # Files
//
// A log is a directory of segments, NNNNNNNN.seg, numbered without gaps, and a file named lock. A
// segment gets its name when its header is durable, so that a segment without a sound header is
// damaged. All numbers are little-endian.
//
//	+---------------------+ 0
//	| header   256 bytes  |
//	+---------------------+ 256
//	| frame               |  each a multiple of 8 bytes long
//	| frame …             |
//	+---------------------+ at the end of the log, or where the header of the
//	| cut                 |  next segment says: what lies behind does not count,
//	+---------------------+  and may be torn, damaged or missing
//
// Header:
//
//	0    8   "CKPTLOG\n"
//	8    4   version: 2; 1 in logs of earlier versions, without the digest
//	12   4   length of the header, 256
//	16   8   number of the segment, from 1 to 2⁶²
//	24   8   number (LSN) of its first frame, from 1 to 2⁶²
//	32   8   bytes of the previous segment that count; 0 if there never was one,
//	         256 if this segment is a copy that supersedes all of it
//	40   4   rank
//	44   2   bytes of the job's name
//	46   2   zero
//	48   128 name of the job, padded with zeros
//	176  32  digest of the description of the job
//	208  44  zero
//	252  4   CRC-32C of bytes 0…251
//
// Frame:
//
//	0    4   CRC-32C of bytes 4…55, continued from that of the header of the
//	         segment, so that a frame of another log or segment fails here
//	4    4   CRC-32C of the payload
//	8    8   number of the frame in the log (LSN): consecutive within a segment,
//	         and growing from one to the next
//	16   8   bytes of the segment that were durable when this was written: where
//	         the group began with which it was committed
//	24   8   Seq: the number of the message in its channel; 2⁶⁴−1 of a cut
//	32   8   message, the numbers in its Depends; match, its number
//	40   4   bytes of the payload, up to 2³¹−1
//	44   4   peer, −1 for none
//	48   4   tag
//	52   1   kind: 1 message, 2 match, 3 cut; readers pass over 4 and any 3 of
//	         another Seq, outputs and marks of checkpoints, of earlier versions
//	53   1   flags: 1 = any source, set of a match
//	54   1   context: 0 = user, 1 = collective operation, as in package mpi
//	55   1   zero
//	56       payload: a message, its Depends, 8 bytes each, and its data; a cut,
//	         the line; padded with zeros to a multiple of 8
//
// # Torn or damaged
//
// Power may fail while a group is being written, and the disk may have stored its last page and
// not its first (Pillai et al., All File Systems Are Not Created Equal, OSDI 2014). A bad frame
// with a good one behind it is therefore no proof of damage. But a frame says how much of the
// segment was durable when it was written. If any frame behind the bad one says that the bad one
// was, that is damage; otherwise the bad one was in the last group, whose commit was not
// reported or is the very last one, and the tail is cut there. All but the last segment end where
// the header of the next one says, and whatever is wrong before that is damage. So is a head
// whose checksum is right and whose fields are not: a write that was cut short does not leave
// one.
//
// Two kinds of damage look like a torn tail: damage to the last group of the last segment, and a
// last segment cut short or lost. The result of opening, Recovery.Next, says where the log ends;
// a caller that knows from elsewhere that more was durable can see that it is missing.
//
// # After a sync that failed
//
// Linux reports an error of writing back once, and then takes the pages for clean: the next fsync
// of the file succeeds without them. A device may also notice late, after an fsync that has
// succeeded. When a sync of a log fails, Reopen therefore
//
//   - copies all frames of the last segment that were reported durable into a new
//     file, the next segment, whose header says: in the old one only the 256 bytes
//     of its header count. Places and numbers of the frames stay the same. They are
//     read from the page cache, which has them even if the disk has not;
//   - begins a segment behind it for the frames to come, whose numbers leave out those
//     that were lost;
//   - reads back, around the page cache, both and every group that is committed until
//     a segment is full, where the file system can. A
//     commit fails if its bytes are not there.
//
// Open does not know whether a sync had failed before. It writes the last group once more before
// it syncs: only of that one no frame says that it was durable. If the directory cannot be synced
// after a removal, Truncate changes it once more before it syncs it again.
//
// This is no defence against a device that loses what it has confirmed and never says so. A
// reader finds damage there.
package msglog
