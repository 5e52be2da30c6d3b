package strace

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"ckpt/iotrace"
)

// A gap is a kind of I/O that a text of strace does not show, or that events do not show
// in full. It is the code of the warning.
type gap string

const (
	astray        gap = "unknown-descriptor"
	aioUnlisted   gap = "aio-unlisted"
	aioUnknown    gap = "aio-unknown"
	aioUnreaped   gap = "aio-unreaped"
	ringRequests  gap = "io_uring"
	ringPolled    gap = "io_uring-sqpoll"
	sharedMapping gap = "shared-mapping"
	readMapping   gap = "read-mapping"
	reflinked     gap = "reflink"
	unfinished    gap = "unfinished"
	notUnderstood gap = "not-understood"
	cutOff        gap = "cut"
	rawCalls      gap = "raw-arguments"
	cutNames      gap = "cut-names"
	nameTaken     gap = "name-taken"
	closesUnseen  gap = "closes-unseen"
	noDurations   gap = iotrace.WarnNoDurations
	storageFull   gap = "storage-full"
	storageError  gap = "storage-error"
	syncWrites    gap = iotrace.WarnSyncWrites
	directIO      gap = iotrace.WarnDirectIO
)

// unseen counts operations by the reason why the trace lacks them.
type unseen map[gap]extent

type extent struct {
	count, bytes int64
	files        map[int32]extent // by index; nil if the files are not known
}

func (u unseen) add(g gap, count, bytes int64) {
	if count == 0 && bytes == 0 {
		return
	}
	x := u[g]
	x.count, x.bytes = x.count+count, iotrace.Sum(x.bytes, bytes)
	u[g] = x
}

func (u unseen) of(g gap, file int32, bytes int64) {
	u.add(g, 1, bytes)
	if file == iotrace.None {
		return
	}
	x := u[g]
	if x.files == nil {
		x.files = make(map[int32]extent)
		u[g] = x
	}
	f := x.files[file]
	x.files[file] = extent{count: f.count + 1, bytes: iotrace.Sum(f.bytes, bytes)}
}

// warnings says what the trace lacks, and the remedy.
func (u unseen) warnings() []iotrace.Warning {
	var out []iotrace.Warning
	for _, g := range slices.Sorted(maps.Keys(u)) {
		x := u[g]
		w := iotrace.Warning{Code: string(g), Text: g.text(x), Count: x.count, Bytes: x.bytes}
		for _, i := range slices.Sorted(maps.Keys(x.files)) {
			w.Files = append(w.Files, iotrace.WarnedFile{File: i, Count: x.files[i].count, Bytes: x.files[i].bytes})
		}
		out = append(out, w)
	}
	return out
}

func (g gap) text(x extent) string {
	n, bytes := x.count, amount(x.bytes, "byte", "bytes")
	switch g {
	case astray:
		return fmt.Sprintf("%s of %s on unknown descriptors are missing: run strace with -y, and from the start of the program", amount(n, "read or write", "reads and writes"), bytes)
	case aioUnlisted:
		return fmt.Sprintf("strace did not list %s of asynchronous requests, whose bytes are those requested: run strace with -e abbrev='!io_getevents,io_pgetevents,io_submit'", amount(n, "result", "results"))
	case aioUnknown:
		return fmt.Sprintf("%s (io_submit) of %s are missing: strace did not list them, or they began before the trace; run strace with -e abbrev='!io_getevents,io_pgetevents,io_submit'", amount(n, "asynchronous request", "asynchronous requests"), bytes)
	case aioUnreaped:
		return fmt.Sprintf("no call returned the results of %s (io_submit) of %s: the program may read them from memory. Their times are those of io_submit, their bytes those requested", amount(n, "asynchronous request", "asynchronous requests"), bytes)
	case ringRequests:
		return fmt.Sprintf("%s of io_uring are missing: strace does not show their files and bytes. Have the program use other calls: fio with --ioengine=libaio or psync, programs of libuv with UV_USE_IO_URING=0; others may do so by themselves after sysctl kernel.io_uring_disabled=2 (Linux 6.6)", amount(n, "request", "requests"))
	case ringPolled:
		return fmt.Sprintf("%s of io_uring had the kernel poll for requests (SQPOLL): these need no calls, and strace cannot even count them. Have the program use other calls", amount(n, "queue", "queues"))
	case sharedMapping:
		return fmt.Sprintf("%s of %s: no call shows the bytes that are written and read through them", amount(n, "writable shared mapping", "writable shared mappings"), bytes)
	case readMapping:
		return fmt.Sprintf("%s of %s: no call shows the bytes that are read through them", amount(n, "mapping of a file", "mappings of files"), bytes)
	case reflinked:
		return fmt.Sprintf("%s got contents of %s by sharing the blocks of other files (FICLONE): no bytes were moved, and there is no event", amount(n, "file", "files"), bytes)
	case unfinished:
		return fmt.Sprintf("%s did not return before the end of the text, or of the process: whether they moved bytes is not known", amount(n, "read or write", "reads and writes"))
	case notUnderstood:
		return fmt.Sprintf("%s not understood: their calls are missing. ckpt trace export shows the first of them", amount(n, "line of strace was", "lines of strace were"))
	case storageFull:
		return fmt.Sprintf("%s failed since the storage was full, or a quota was used up. Free some space, and record again: this run is not a usual one", amount(n, "call", "calls"))
	case storageError:
		return fmt.Sprintf("%s failed since the storage did (EIO). Look at the messages of the kernel (dmesg)", amount(n, "call", "calls"))
	case syncWrites:
		return "writes were synchronous (O_SYNC, O_DSYNC): the time of each is that of a write and a sync. The trace has a sync of no time after each, which a replay repeats"
	case directIO:
		return "requests went around the page cache (O_DIRECT), as a replay does only if it is asked to"
	case rawCalls:
		return fmt.Sprintf("%s printed with addresses for names (strace -e raw or -e verbose): their files, and which threads share descriptors, are unknown. Run strace without that option", amount(n, "call was", "calls were"))
	case cutNames:
		return fmt.Sprintf("%s a name that is cut short (\"...\"): their files are unknown. Run strace with -y", amount(n, "call has", "calls have"))
	case nameTaken:
		return "a file was used on after it was renamed and another had taken its name: the operations may be those of the other"
	case closesUnseen:
		return fmt.Sprintf("an open returned a number that was not closed: a filter leaves out closes, and perhaps others that give numbers away, so that the files of %s are not certain. Run strace with -y, or with -e trace=%%desc", amount(n, "read or write", "reads and writes"))
	case noDurations:
		return "reads and writes have no duration: times, bandwidth and gains are unknown. Run strace with -T"
	case cutOff:
		return "the text of strace is damaged or cut: the trace ends there"
	}
	return string(g)
}

// refused counts a call that failed because of the storage. Other failures are usual:
// programs try names that do not exist, and a terminal that is gone has EIO as well.
func (c *call) refused() {
	var g gap
	switch string(c.reason) {
	case "ENOSPC", "EDQUOT":
		g = storageFull
	case "EIO":
		g = storageError
	default:
		return
	}
	if o, _ := c.lookup(0); o == nil || o.kind == "" {
		c.im.unseen.add(g, 1, 0)
	}
}

func severalJobs(n int) iotrace.Warning {
	return iotrace.Warning{Code: "several-jobs",
		Text: fmt.Sprintf("%d MPI jobs are in the trace, and ranks of the same number count as one: balance and concurrency mix them. Record each job by itself: have the script run the recorder before each mpiexec", n)}
}

func amount(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", more)
}

// close completes the trace: ranks, order, time, and what it lacks.
func (im *importer) close(reports ...*iotrace.Report) {
	for _, r := range reports {
		im.unseen.add(astray, r.Astray, r.AstrayBytes)
		im.unseen.add(notUnderstood, r.Unknown, 0)
		if r.Cut != nil {
			im.unseen.add(cutOff, 1, 0)
		}
	}
	if !im.timed && im.unseen[noDurations].count > 0 { // those of calls on two lines tell little of the others
		for i := range im.t.Events {
			if e := &im.t.Events[i]; e.Op != iotrace.Rename { // whose end is that of a Renaming
				e.End = e.Start
			}
		}
	}
	if im.reused {
		im.unseen.add(closesUnseen, im.unnoted, 0)
	}
	im.t.Warnings = im.unseen.warnings()
	im.ranks()
	im.t.Sort()
	im.t.Runtime = time.Duration(min(max(im.until-im.since, 0), iotrace.MaxTime))
}
