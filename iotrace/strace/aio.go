package strace

import (
	"bytes"
	"maps"
	"math"
	"slices"

	"ckpt/iotrace"
)

// A request of Linux' asynchronous I/O (libaio), from io_submit to the io_getevents that
// returns it.
type request struct {
	listed bool       // by strace
	op     iotrace.Op // 0 if it is not listed, or moves no bytes
	file   *open      // nil if it is no file, or not known
	known  bool       // of the descriptor
	offset int64
	bytes  int64 // requested; iotrace.None if that is not known
	data   uint64
	rank   int32
	// When io_submit began and ended.
	begin, end int64
}

// maxRequests bounds the requests that wait in one context. A program that reads its
// results from memory leaves all of them there.
const maxRequests = 1 << 16

// maxSubmitted bounds the requests of one call. The kernel takes fs.aio-max-nr at
// most, which is 64 Ki on most machines and 1 Mi on machines of large databases.
const maxSubmitted = 1 << 20

// submit handles io_submit. It returns how many of the requests were taken.
func (c *call) submit() bool {
	list, cut, ok := elements(c.arg(2))
	if !ok || c.value > maxSubmitted {
		return false
	}
	m := c.task.memory
	if m.aio == nil {
		m.aio = make(map[string][]request)
		c.im.asynchronous = append(c.im.asynchronous, m)
	}
	queue := m.aio[string(c.arg(0))]
	for i := range c.value {
		r := request{bytes: iotrace.None, begin: c.start, end: c.end, rank: c.im.rank(c.task.process)}
		switch {
		case i < int64(len(list)):
			c.describe(&r, list[i])
		case !cut:
			return false
		}
		queue = append(queue, r)
	}
	for len(queue) > maxRequests {
		c.reaped(&queue[0])
		queue = queue[1:]
	}
	m.aio[string(c.arg(0))] = queue
	return true
}

// describe reads a request as strace prints it: {aio_data=0, aio_lio_opcode=…, …}.
func (c *call) describe(r *request, text []byte) {
	fields := members(text)
	r.listed = true
	r.data = address(fields["aio_data"])
	if o, ok := integer(fields["aio_offset"]); ok {
		r.offset = o
	}
	if n, ok := integer(fields["aio_nbytes"]); ok {
		r.bytes = n
	}
	switch string(fields["aio_lio_opcode"]) {
	case "IOCB_CMD_PREAD":
		r.op = iotrace.Read
	case "IOCB_CMD_PREADV":
		r.op, r.bytes = iotrace.Read, vectorBytes(fields["aio_buf"])
	case "IOCB_CMD_PWRITE":
		r.op = iotrace.Write
	case "IOCB_CMD_PWRITEV":
		r.op, r.bytes = iotrace.Write, vectorBytes(fields["aio_buf"])
	case "IOCB_CMD_FSYNC", "IOCB_CMD_FDSYNC":
		r.op, r.bytes = iotrace.Sync, 0
	default: // IOCB_CMD_POLL waits, IOCB_CMD_NOOP does nothing
		return
	}
	o, ok := c.resolve(fields["aio_fildes"], false)
	if r.known = ok && o != nil && o.kind != unknownDescriptor; r.known && o.kind == "" {
		r.file = o
	}
}

// vectorBytes adds up the lengths in [{iov_base=…, iov_len=512}, …].
func vectorBytes(text []byte) (sum int64) {
	list, cut, ok := elements(text)
	if !ok || cut {
		return iotrace.None
	}
	for _, v := range list {
		n, ok := integer(members(v)["iov_len"])
		if !ok || n < 0 || n > math.MaxInt64-sum {
			return iotrace.None
		}
		sum += n
	}
	return sum
}

// results handles io_getevents, which returns the ends of requests.
func (c *call) results() bool {
	list, cut, ok := elements(c.arg(3))
	if !ok && c.value > 0 || c.value > maxSubmitted {
		return false
	}
	key := string(c.arg(0))
	queue := c.task.memory.aio[key]
	for i := range c.value {
		var data uint64
		res := int64(iotrace.None)
		if i < int64(len(list)) {
			fields := members(list[i])
			data = address(fields["data"])
			if res, ok = integer(fields["res"]); !ok {
				return false
			}
			if res < 0 {
				c.im.rep.Failed++
				res = failed
			}
		} else if !cut {
			return false
		} else {
			c.im.unseen.add(aioUnlisted, 1, 0)
		}
		at := match(queue, data, res, i < int64(len(list)))
		if at < 0 { // submitted before the trace began
			c.im.unseen.add(aioUnknown, 1, max(res, 0))
			continue
		}
		if res != failed {
			c.complete(&queue[at], res, c.end)
		}
		queue = append(queue[:at], queue[at+1:]...)
		if c.err != nil {
			break
		}
	}
	if len(queue) > 0 || c.task.memory.aio != nil {
		c.task.memory.aio[key] = queue
	}
	return true
}

const failed = math.MinInt64

// match finds the request of a result. strace prints the number that the program chose
// for a request at both places, but its address in memory only at the second. So
// requests of the same number, such as 0 in fio, end in the order in which they began,
// if their lengths allow it.
func match(queue []request, data uint64, res int64, listed bool) int {
	best := -1
	for i := range queue {
		r := &queue[i]
		if listed && r.listed && r.data != data {
			continue
		}
		if !listed || res == failed || r.bytes == res {
			return i
		}
		if best < 0 || r.bytes > res && queue[best].bytes >= 0 && queue[best].bytes < res {
			best = i
		}
	}
	return best
}

// complete adds the event of a request. It moved as many bytes as were requested if the
// result is not known.
func (c *call) complete(r *request, res, end int64) {
	if res == iotrace.None {
		res = r.bytes
	}
	switch {
	case !r.listed:
		c.im.unseen.add(aioUnknown, 1, max(res, 0))
		return
	case r.op == 0:
		return
	case r.file == nil:
		if !r.known && r.op.Data() {
			c.im.astray(max(res, 0))
		}
		return
	}
	begin, ended, rank := c.start, c.end, c.ranked
	c.start, c.end, c.ranked = r.begin, max(end, r.begin), r.rank+1
	defer func() { c.start, c.end, c.ranked = begin, ended, rank }()
	if r.op == iotrace.Sync {
		c.on(r.file, iotrace.Sync, iotrace.None, 0)
		return
	}
	c.value = max(res, 0)
	c.move(r.op, r.file, max(r.offset, 0))
}

// destroy handles io_destroy: the kernel waits for the requests, and drops
// their results.
func (c *call) destroy() bool {
	key := string(c.arg(0))
	queue := c.task.memory.aio[key]
	delete(c.task.memory.aio, key)
	c.unreaped(queue)
	return true
}

// unreaped adds the events of requests whose results no call returned. Some programs
// read them from memory that the kernel shares with them.
func (c *call) unreaped(queue []request) {
	for i := range queue {
		c.reaped(&queue[i])
	}
}

func (c *call) reaped(r *request) {
	if r.op != 0 {
		c.im.unseen.add(aioUnreaped, 1, max(r.bytes, 0))
	}
	c.complete(r, iotrace.None, r.end)
}

// unreaped ends the requests that are left at the end of the text.
func (im *importer) unreaped() error {
	c := &im.call
	*c = call{im: im, name: "io_getevents"}
	for _, m := range im.asynchronous {
		for _, context := range slices.Sorted(maps.Keys(m.aio)) {
			c.unreaped(m.aio[context])
		}
	}
	im.asynchronous = nil
	if c.err != nil && !im.o.Lenient {
		return im.in.Errorf("io_submit: %v", c.err)
	}
	return nil
}

// elements splits [a, b, ...] at its commas. cut tells that strace left elements out.
func elements(b []byte) (list [][]byte, cut, ok bool) {
	n := len(b)
	if n < 2 || b[0] != '[' || b[n-1] != ']' {
		return nil, false, false
	}
	list, _, ok = splitArgs(nil, append(bytes.Clone(b[1:n-1]), ')'))
	if n := len(list); ok && n > 0 && string(list[n-1]) == "..." {
		return list[:n-1], true, true
	}
	return list, false, ok
}

// members splits {a=1, b=2} into its values by name.
func members(b []byte) map[string][]byte {
	n := len(b)
	if n < 2 || b[0] != '{' || b[n-1] != '}' {
		return nil
	}
	list, _, ok := splitArgs(nil, append(bytes.Clone(b[1:n-1]), ')'))
	if !ok {
		return nil
	}
	m := make(map[string][]byte, len(list))
	for _, f := range list {
		if name, value, ok := bytes.Cut(f, []byte("=")); ok {
			m[string(name)] = value
		}
	}
	return m
}

// address reads a number in hexadecimal digits, or 0.
func address(b []byte) uint64 {
	hex, ok := bytes.CutPrefix(b, []byte("0x"))
	if !ok || len(hex) > 16 {
		n, _ := iotrace.Int(b)
		return uint64(n)
	}
	var n uint64
	for _, d := range hex {
		n = n<<4 | uint64(hexDigit(d))
	}
	return n
}
